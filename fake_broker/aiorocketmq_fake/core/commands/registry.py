"""The registry of groups: how they come to be known, and how changes are told."""

from aiorocketmq_fake.core.records.groups import Group, retry_policy
from aiorocketmq_fake.core.state import State
from aiorocketmq_fake.core.values.codes import Code, Refusal
from aiorocketmq_fake.core.values.events import GroupChanged
from aiorocketmq_fake.core.values.model import GroupConfig


def known_group(state: State, name: str) -> Group:
    """Look a group up, or create it where a receive may do so (R10.2)."""
    if name not in state.groups and not state.profile.auto_create_groups:
        raise Refusal(state.profile.unknown_group_code, f"The consumer group {name} does not exist.")
    return ensured_group(state, name)


def looked_up_group(state: State, name: str) -> Group | None:
    """Look a group up as a proxy does; where it asks a broker for that, the broker creates the group (R10.2)."""
    if state.profile.lookups_create_groups and state.profile.auto_create_groups:
        return ensured_group(state, name)
    return state.groups.get(name)


def check_session_group(state: State, name: str) -> None:
    """Refuse with ILLEGAL_CONSUMER_GROUP what a session asks for a group that has to be there, and is not."""
    if looked_up_group(state, name) is None and state.profile.session_needs_group:
        raise Refusal(Code.ILLEGAL_CONSUMER_GROUP, f"The consumer group {name} does not exist.")


def ensured_group(state: State, name: str) -> Group:
    """Look a group up, or create it, as the classic protocol does on every server unless it is told not to."""
    group = state.groups.get(name)
    if group is None:
        group = state.groups[name] = Group(GroupConfig(name), state.log_end, auto_created=True)
        tell_changed(state, group.config, deleted=False)
    return group


def tell_changed(state: State, config: GroupConfig, *, deleted: bool) -> None:
    """Tell that a group was created, updated or deleted."""
    grain = state.profile.order_grain.value
    steps = retry_policy(config, state.profile).steps
    state.events.append(GroupChanged(state.at, config, steps, grain, deleted))
