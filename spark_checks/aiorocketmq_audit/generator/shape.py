"""The shape of a generated recording: numbers of groups and clients, failure rates, and clock skew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from aiorocketmq_audit.errors import UsageError

_LEAST_ONE = ("consumers", "producers", "queues", "brokers", "message_groups", "rows_per_file")
_NOT_NEGATIVE = ("groups", "ordered_groups", "crashes", "restarts", "skew_ms")
_FAILING = ("retries", "expiries", "slow", "extended", "lost")
_SHARES = (*_FAILING, "hot", "ordered_share", "delayed", "refused", "dead")

OBSERVERS = ("broker", "client")


@dataclass(frozen=True, slots=True)
class Shape:
    """The size and character of a recording; shares lie between 0 and 1, times are in milliseconds."""

    groups: int = 2
    """Normal consumer groups; each is delivered every message, the second one those of two tags of three."""
    ordered_groups: int = 2
    """Ordered consumer groups; each is delivered the messages that have a message group."""
    consumers: int = 2
    """Consumers of each group, each with a recorder of its own."""
    producers: int = 1
    queues: int = 4
    """Queues of each topic and broker."""
    brokers: int = 1
    message_groups: int = 100
    hot: float = 0.0
    """Share of all messages that belong to one message group; at most `ordered_share`."""
    ordered_share: float = 0.5
    """Share of the messages that have a message group."""
    delayed: float = 0.1
    """Share of the other messages that are sent for a later time."""
    retries: float = 0.02
    """Share of deliveries that end with a failed handler, so that the message is retried."""
    expiries: float = 0.002
    """Share of deliveries with a lease that expires."""
    slow: float = 0.001
    """Share of deliveries that are acknowledged after the lease expired, without effect."""
    extended: float = 0.005
    """Share of deliveries with a lease that is extended before the ack."""
    lost: float = 0.002
    """Share of sends, receives and acks with a lost answer."""
    refused: float = 0.001
    """Share of sends that the server rejects."""
    dead: float = 0.0005
    """Share of messages that fail in every attempt and become dead letters."""
    crashes: int = 2
    """Consumers that crash while they lease a message."""
    restarts: int = 1
    """Restarts of the server that lose an ack."""
    skew_ms: int = 20
    """Greatest difference of a client's clock from the server's, in either direction."""
    observers: Sequence[str] = OBSERVERS
    """Observers that are written: `broker`, `client`, or both."""
    hold_ms: int = 30_000
    """Length of a lease."""
    steps_ms: Sequence[int] = (1_000, 5_000, 10_000, 30_000)
    """Waits between attempts of normal groups; ordered ones wait for the first one only."""
    max_attempts: int = 6
    rows_per_file: int = 100_000

    def __post_init__(self) -> None:
        for name in _LEAST_ONE:
            _demand(getattr(self, name) >= 1, name, "at least 1")
        for name in _SHARES:
            _demand(0 <= getattr(self, name) <= 1, name, "between 0 and 1")
        for name in _NOT_NEGATIVE:
            _demand(getattr(self, name) >= 0, name, "0 or more")
        _demand(self.groups + self.ordered_groups >= 1, "groups", "at least 1 where ordered_groups is 0")
        _demand(self.hot <= self.ordered_share, "hot", "at most ordered_share")
        failing = sum(getattr(self, name) for name in _FAILING)
        _demand(failing <= 0.9, "retries", "less: things go well sometimes")
        _demand(self.max_attempts >= 2, "max_attempts", "at least 2")
        _demand(self.hold_ms >= 10_000, "hold_ms", "at least 10000")
        are_waits = bool(self.steps_ms) and min(self.steps_ms) >= 100
        _demand(are_waits, "steps_ms", "waits of at least 100, as 1000+5000")
        are_observers = bool(self.observers) and set(self.observers) <= set(OBSERVERS)
        _demand(are_observers, "observers", "broker, client, or broker+client")

    @classmethod
    def parse(cls, settings: Sequence[str]) -> Shape:
        """Return the shape of `NAME=VALUE` texts, lists joined by `+`; UsageError for unknown names, wrong values."""
        values: dict[str, object] = {}
        names = [field.name for field in fields(cls)]
        for setting in settings:
            name, equals, text = setting.partition("=")
            if not equals or name not in names:
                raise UsageError(
                    f"--shape {setting} is not understood: use NAME=VALUE with one of {', '.join(names)}."
                )
            values[name] = _value(name, text, getattr(cls(), name))
        return cls(**values)  # type: ignore[arg-type]  # each value has its default's type


def _value(name: str, text: str, default: object) -> object:
    try:
        if isinstance(default, int | float):
            return type(default)(text)
        parts = tuple(part.strip() for part in text.split("+"))
        return tuple(int(part) for part in parts) if name == "steps_ms" else parts
    except ValueError:
        example = "+".join(map(str, default)) if isinstance(default, tuple) else default
        raise UsageError(f"--shape {name}={text} is no number: for example {name}={example}.") from None


def _demand(is_right: bool, name: str, what: str) -> None:
    if not is_right:
        raise UsageError(f"the shape's {name} must be {what}.")
