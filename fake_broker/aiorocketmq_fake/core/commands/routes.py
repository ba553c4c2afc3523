"""Routes and assignments of the queues of a topic (3)."""

from aiorocketmq_fake.core.commands.registry import session_group
from aiorocketmq_fake.core.records.topics import ACCEPTED, Topic
from aiorocketmq_fake.core.state import State
from aiorocketmq_fake.core.values.codes import ClientType, Code, Permission, Refusal
from aiorocketmq_fake.core.values.model import RouteEntry


def query_route(state: State, name: str) -> tuple[RouteEntry, ...]:
    """List the queues of a topic (R3.1-R3.4)."""
    topic = _topic(state, name)
    accepts = ACCEPTED[topic.config.type]
    return tuple(
        RouteEntry(name, queue_id, permission, state.broker, accepts)
        for queue_id, permission in enumerate(_permissions(topic))
    )


def query_assignment(state: State, name: str, group_name: str, client_id: str = "") -> tuple[RouteEntry, ...]:
    """Return the queues that a consumer of a group receives from; all but pull consumers get the same (R3.6-R3.8)."""
    state.check_topic(name)
    state.check_group(group_name)
    topic = _topic(state, name)
    config = topic.config
    if not config.permission.readable or not config.read_queues:
        raise Refusal(Code.FORBIDDEN, f"The topic {name} has no readable queue.")
    if state.profile.pull_queues_divided and (pullers := _pullers(state, group_name, client_id)):
        own = _share(config.read_queues, pullers, client_id)
        return tuple(RouteEntry(name, queue_id, config.permission, state.broker, ()) for queue_id in own)
    group = session_group(state, group_name)
    if group is None or not group.config.ordered:
        return (RouteEntry(name, -1, config.permission, state.broker, ()),)
    return tuple(
        RouteEntry(name, queue_id, config.permission, state.broker, ())
        for queue_id in range(config.read_queues)
    )


def _pullers(state: State, group_name: str, client_id: str) -> list[str]:
    """Return the pull consumers of a group in order, if this client is one of them."""
    pullers = [
        client.id
        for client in state.clients.values()
        if client.settings.client_type is ClientType.PULL_CONSUMER and client.group == group_name
    ]
    return sorted(pullers) if client_id in pullers else []


def _share(queues: int, clients: list[str], client_id: str) -> range:
    """Divide queues into contiguous runs, as evenly as possible, and return one client's."""
    place = clients.index(client_id)
    return range(place * queues // len(clients), (place + 1) * queues // len(clients))


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
