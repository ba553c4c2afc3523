"""Consumer groups: their settings and what these mean for retries."""

from aiorocketmq_fake.core.codes import Refusal
from aiorocketmq_fake.core.events import GroupChanged
from aiorocketmq_fake.core.model import GroupConfig, RetryPolicy
from aiorocketmq_fake.core.profile import Profile
from aiorocketmq_fake.core.state import State


class Group:
    """A consumer group."""

    __slots__ = ("auto_created", "config", "created_position")

    def __init__(self, config: GroupConfig, created_position: int, auto_created: bool = False) -> None:
        self.config = config
        self.created_position = created_position
        """Place in the log at the moment of creation."""
        self.auto_created = auto_created

    @property
    def name(self) -> str:
        """The group's name."""
        return self.config.name


def known_group(state: State, name: str) -> Group:
    """Look a group up, or create it where a receive may do so (R10.2)."""
    group = state.groups.get(name)
    if group is None:
        if not state.profile.auto_create_groups:
            raise Refusal(state.profile.unknown_group_code, f"The consumer group {name} does not exist.")
        group = state.groups[name] = Group(GroupConfig(name), state.log_end, auto_created=True)
        tell_changed(state, group.config, deleted=False)
    return group


def tell_changed(state: State, config: GroupConfig, *, deleted: bool) -> None:
    """Tell that a group was created, updated or deleted."""
    grain = state.profile.order_grain.value
    steps = retry_policy(config, state.profile).steps
    state.events.append(GroupChanged(state.at, config, steps, grain, deleted))


def retry_policy(config: GroupConfig, profile: Profile) -> RetryPolicy:
    """Tell the retry intervals of a group: its own, or the profile's table (2.2)."""
    return config.retry_policy or RetryPolicy(steps=tuple(map(float, profile.backoff.value)))


def retry_delay(config: GroupConfig, profile: Profile, attempts_before: int) -> float:
    """Tell the server's own delay for a message it gives up renewing: two steps into the table (R7.12)."""
    policy = retry_policy(config, profile)
    if policy.steps:
        return policy.steps[min(attempts_before + 2, len(policy.steps) - 1)]
    return float(min(policy.initial * policy.multiplier ** min(attempts_before + 2, 64), policy.maximum))
