"""Routes and assignments: what clients are told about the queues of a topic (3)."""

from aiorocketmq_fake.core.codes import Code, Permission, Refusal
from aiorocketmq_fake.core.model import RouteEntry
from aiorocketmq_fake.core.state import State
from aiorocketmq_fake.core.topics import ACCEPTED, Topic


def query_route(state: State, name: str) -> tuple[RouteEntry, ...]:
    """List the queues of a topic (R3.1-R3.4)."""
    topic = _topic(state, name)
    accepts = ACCEPTED[topic.config.type]
    return tuple(
        RouteEntry(name, queue_id, permission, state.broker, accepts)
        for queue_id, permission in enumerate(_permissions(topic))
    )


def query_assignment(state: State, name: str, group_name: str) -> tuple[RouteEntry, ...]:
    """List what a consumer of a group receives from; every consumer gets the same list (R3.6-R3.8)."""
    state.check_topic(name)
    state.check_group(group_name)
    topic = _topic(state, name)
    config = topic.config
    if not config.permission.readable or not config.read_queues:
        raise Refusal(Code.FORBIDDEN, f"The topic {name} has no readable queue.")
    group = state.groups.get(group_name)
    if group is None or not group.config.ordered:
        return (RouteEntry(name, -1, config.permission, state.broker, ()),)
    return tuple(
        RouteEntry(name, queue_id, config.permission, state.broker, ())
        for queue_id in range(config.read_queues)
    )


def _topic(state: State, name: str) -> Topic:
    state.check_topic(name)
    topic = state.topics.get(name)
    if topic is None:
        raise Refusal(Code.TOPIC_NOT_FOUND, f"The topic {name} does not exist.")
    return topic


def _permissions(topic: Topic) -> list[Permission]:
    """Lay out the entries as servers do: the surplus of one kind first (R3.2)."""
    config = topic.config
    read, write = config.read_queues, config.write_queues
    if config.permission is Permission.READ_WRITE:
        both = min(read, write)
        surplus = Permission.READ if read > write else Permission.WRITE
        return [surplus] * (max(read, write) - both) + [Permission.READ_WRITE] * both
    if config.permission is Permission.READ:
        return [Permission.READ] * read
    if config.permission is Permission.WRITE:
        return [Permission.WRITE] * write
    return [Permission.NONE] * max(1, read, write)
