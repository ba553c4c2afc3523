"""The registry of groups: lookup, creation on first use, and the event of a change."""

from aiorocketmq_fake.core.records.groups import Group, retry_policy
from aiorocketmq_fake.core.state import State
from aiorocketmq_fake.core.values.codes import Code, Refusal
from aiorocketmq_fake.core.values.events import GroupChanged
from aiorocketmq_fake.core.values.model import GroupConfig


def receiver_group(state: State, name: str) -> Group:
    """Return a group, created if a receive may create it (R10.2)."""
    if name not in state.groups and not state.profile.auto_create_groups:
        raise Refusal(state.profile.unknown_group_code, f"The consumer group {name} does not exist.")
    return ensured_group(state, name)


def session_group(state: State, name: str) -> Group | None:
    """Return a group as a proxy does; if it asks a broker for that, the broker creates the group (R10.2)."""
    if state.profile.lookups_create_groups and state.profile.auto_create_groups:
        return ensured_group(state, name)
    return state.groups.get(name)


def check_session_group(state: State, name: str) -> None:
    """Raise ILLEGAL_CONSUMER_GROUP if a session needs an existing group that does not exist."""
    if session_group(state, name) is None and state.profile.session_needs_group:
        raise Refusal(Code.ILLEGAL_CONSUMER_GROUP, f"The consumer group {name} does not exist.")


def ensured_group(state: State, name: str) -> Group:
    """Return a group, created if need be, as servers do by default for the classic protocol."""
    group = state.groups.get(name)
    if group is None:
        group = state.groups[name] = Group(GroupConfig(name), state.log_end, auto_created=True)
        report_change(state, group.config, deleted=False)
    return group


def report_change(state: State, config: GroupConfig, *, deleted: bool) -> None:
    """Record that a group was created, updated or deleted."""
    grain = state.profile.order_grain.value
    steps = retry_policy(config, state.profile).steps
    state.events.append(GroupChanged(state.at, config, steps, grain, deleted))
