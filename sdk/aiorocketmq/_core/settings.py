"""Client settings, server settings, and the settings in force that follow from both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TypeVar

Value = TypeVar("Value")

# Values in force until a server declares others (client-behaviour.md, 1.2 and 6.3).
DEFAULT_MAX_BODY = 4 * 1024 * 1024
DEFAULT_RECEIVE_BATCH = 32
DEFAULT_LONG_POLLING = 20.0
DEFAULT_CONSUMER_ATTEMPTS = 17

LITE_PUSH = "LITE_PUSH_CONSUMER"
LITE_SIMPLE = "LITE_SIMPLE_CONSUMER"
"""The client types of consumers of lite topics."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays before further attempts: a table or a formula, and the number of attempts."""

    max_attempts: int
    steps: tuple[float, ...] = ()
    """Seconds after attempt 1, 2, ...; the last one repeats. Empty: the formula applies."""
    initial: float = 0.0
    maximum: float = 0.0
    multiplier: float = 1.0

    def delay(self, attempt: int) -> float:
        """Return the seconds to wait after attempt number `attempt`, counting from 1 (client-behaviour.md, 9.3).

        A server that counts from 0, or not at all, gets what follows the first attempt."""
        attempt = max(attempt, 1)
        if self.steps:
            return self.steps[min(attempt, len(self.steps)) - 1]
        # The exponent is bounded because a long-lived message would otherwise overflow a float.
        return min(self.initial * self.multiplier ** min(attempt - 1, 64), self.maximum)


@dataclass(frozen=True, slots=True)
class Answer:
    """The settings in one answer of a server; None for those that it lacks."""

    backoff: Backoff | None = None
    max_body: int | None = None
    validate_message_type: bool | None = None
    ordered: bool | None = None
    receive_batch: int | None = None
    long_polling: float | None = None
    lite_quota: int | None = None
    lite_topic_limit: int | None = None
    metrics_endpoint: str | None = None


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The settings in force: defaults, updated by each answer."""

    backoff: Backoff = field(default_factory=lambda: Backoff(max_attempts=DEFAULT_CONSUMER_ATTEMPTS))
    max_body: int = DEFAULT_MAX_BODY
    validate_message_type: bool = True
    ordered: bool = False
    """Whether the group is ordered."""
    receive_batch: int = DEFAULT_RECEIVE_BATCH
    long_polling: float = DEFAULT_LONG_POLLING
    lite_quota: int = 0
    lite_topic_limit: int = 64
    metrics_endpoint: str | None = None

    def changes(self, before: ServerSettings) -> str:
        """Return the values that differ from those `before`, for logs."""
        old, new = ({**asdict(each), **asdict(each.backoff)} for each in (before, self))
        return ", ".join(
            f"{name} {old[name]} to {new[name]}"
            for name in new
            if name != "backoff" and new[name] != old[name]
        )

    def limits(self, *, is_producer: bool) -> str:
        """Return what bounds a producer or a consumer, for logs."""
        if is_producer:
            return f"{self.backoff.max_attempts} attempts, bodies of up to {self.max_body} bytes"
        order = "ordered" if self.ordered else "not ordered"
        return f"{order}, {self.backoff.max_attempts} attempts, up to {self.receive_batch} messages at once"

    def merged(self, answer: Answer, *, own_attempts: int | None = None) -> ServerSettings:
        """Return these settings updated by `answer`; a producer keeps its `own_attempts` (client-behaviour.md, 6.2).

        Zeros are taken as "unset": a maximal body of 0 bytes would forbid every message."""
        backoff = answer.backoff or self.backoff
        if own_attempts is not None:
            backoff = replace(backoff, max_attempts=own_attempts)
        return ServerSettings(
            backoff=backoff,
            max_body=answer.max_body or self.max_body,
            validate_message_type=_or_before(answer.validate_message_type, self.validate_message_type),
            ordered=_or_before(answer.ordered, self.ordered),
            receive_batch=answer.receive_batch or self.receive_batch,
            long_polling=answer.long_polling or self.long_polling,
            lite_quota=_or_before(answer.lite_quota, self.lite_quota),
            lite_topic_limit=answer.lite_topic_limit or self.lite_topic_limit,
            metrics_endpoint=answer.metrics_endpoint,
        )


def _or_before(answer: Value | None, before: Value) -> Value:
    return before if answer is None else answer


@dataclass(frozen=True, slots=True)
class FilterText:
    """A filter on the wire: its expression, and whether that is SQL."""

    expression: str = "*"
    is_sql: bool = False


@dataclass(frozen=True, slots=True)
class Declaration:
    """The settings that a client sends to every server before any other call."""

    client_type: str
    """The contract's name: PRODUCER, PUSH_CONSUMER, SIMPLE_CONSUMER, PULL_CONSUMER, LITE_PUSH_CONSUMER …"""
    topics: tuple[str, ...] = ()
    """The topics that a producer sends to."""
    group: str | None = None
    subscriptions: Mapping[str, FilterText] = field(default_factory=dict)
    request_timeout: float = 3.0
    long_polling: float | None = None
    attempts: int = 3
    """How many attempts a producer makes for one send."""
    client_properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_producer(self) -> bool:
        """Whether it is a producer."""
        return self.client_type == "PRODUCER"

    @property
    def all_topics(self) -> tuple[str, ...]:
        """Every topic that the client needs a route of."""
        return self.topics if self.is_producer else tuple(self.subscriptions)
