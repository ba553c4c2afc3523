"""Consumer groups and their retry intervals."""

from aiorocketmq_fake.core.values.model import GroupConfig, RetryPolicy
from aiorocketmq_fake.core.values.profile import Profile


class Group:
    """A consumer group."""

    __slots__ = ("auto_created", "config", "created_position")

    def __init__(self, config: GroupConfig, created_position: int, auto_created: bool = False) -> None:
        self.config = config
        self.created_position = created_position
        """Log position at the time of creation."""
        self.auto_created = auto_created

    @property
    def name(self) -> str:
        """The group's name."""
        return self.config.name


def retry_policy(config: GroupConfig, profile: Profile) -> RetryPolicy:
    """Return the retry intervals of a group: its own, or the profile's table (2.2)."""
    return config.retry_policy or RetryPolicy(steps=tuple(map(float, profile.backoff.value)))


def retry_delay(config: GroupConfig, profile: Profile, attempts_before: int) -> float:
    """Return the server's delay for a message it stops renewing: two steps into the table (R7.12)."""
    policy = retry_policy(config, profile)
    if policy.steps:
        return policy.steps[min(attempts_before + 2, len(policy.steps) - 1)]
    return float(min(policy.initial * policy.multiplier ** min(attempts_before + 2, 64), policy.maximum))
