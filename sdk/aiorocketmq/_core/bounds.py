"""Bounds of the values that servers send: settings are adjusted to them, other values beyond them are refused.

Settings may be adjusted because a client works with any of them. Routes and assignments are refused as a whole: the
queue of a message group depends on the number of queues of a route, so a part of a route is another route."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from aiorocketmq._core.endpoint import parse_endpoint
from aiorocketmq._core.plain_text import escaped, plain
from aiorocketmq._core.settings import DEFAULT_CONSUMER_ATTEMPTS, Answer, Backoff

Number = TypeVar("Number", int, float)

MAX_INT32 = 2**31 - 1
"""The largest number of the wire's counts, and what servers send for "unlimited"."""

# Settings

MAX_RECEIVE_BATCH = 1024
"""Messages of one receive call: a batch has to be handled within one lease. Brokers return up to 32."""
MIN_LONG_POLLING = 1.0
"""Seconds: shorter polls are a busy loop. Proxies extend shorter ones to 5 s."""
MAX_LONG_POLLING = 120.0
"""Seconds: a longer poll detects a broken connection too late. Proxies accept up to 20 s."""
MAX_BACKOFF_STEPS = 1000
"""Steps of a back-off table, of which the last one repeats. Apache's default table has 16."""
MAX_BACKOFF = 43_200.0
"""Seconds of one back-off step: no server keeps a message invisible for more than 12 hours."""
MIN_MULTIPLIER, MAX_MULTIPLIER = 1.0, 100.0
"""Of an exponential back-off: below it shrinks, above it overflows a float within 64 attempts."""

# Routes and assignments

MAX_QUEUES = 16_384
"""Queues of one topic: each send scans them if servers are isolated."""
MAX_ADDRESSES = 128
"""Addresses of one server: a connection tries them one after the other."""
MAX_ROUTE_ADDRESSES = 65_536
"""Addresses of all queues of one answer; every queue repeats those of its server."""
MAX_SERVERS = 1024
"""Different servers of one topic: each gets a connection, a settings stream and heartbeats."""
MAX_BROKER_NAME = 255
"""Characters of a broker's name, which every log line and metric of its queues repeats."""
ALL_QUEUES = -1
"""The lowest queue id: it stands for all queues of a broker."""

# Times

_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999

# Texts

MAX_TEXT = 1000
"""Characters of a server's text that are kept: errors are logged, recorded and referenced by tasks."""


@dataclass(frozen=True, slots=True)
class Adjustment:
    """A value of a server's settings that was adjusted."""

    field: str
    """Its name in the contract."""
    text: str
    """The value, what is allowed, and what is used instead."""


def bounded_answer(answer: Answer) -> tuple[Answer, tuple[Adjustment, ...]]:
    """Return `answer` within the bounds, and the adjustments.

    A number without meaning (0, negative, not a number) is ignored, so that the previous value stays; for attempts it
    means the servers' default. 0 is how the wire spells "unset", and no adjustment. A value out of range becomes the
    nearest one in range."""
    changes: list[Adjustment] = []
    bounded = replace(
        answer,
        max_body=_bounded("max_body_size", answer.max_body, 1, MAX_INT32, changes),
        receive_batch=_bounded("receive_batch_size", answer.receive_batch, 1, MAX_RECEIVE_BATCH, changes),
        long_polling=_bounded(
            "long_polling_timeout", answer.long_polling, MIN_LONG_POLLING, MAX_LONG_POLLING, changes
        ),
        lite_quota=_bounded("lite_subscription_quota", answer.lite_quota, 1, MAX_INT32, changes),
        lite_topic_limit=_bounded("max_lite_topic_size", answer.lite_topic_limit, 1, MAX_INT32, changes),
        backoff=None if answer.backoff is None else _bounded_backoff(answer.backoff, changes),
        metrics_endpoint=_checked_metrics(answer.metrics_endpoint, changes),
    )
    return bounded, tuple(changes)


def _bounded(
    field: str, value: Number | None, lowest: Number, highest: Number, changes: list[Adjustment]
) -> Number | None:
    if value is None or value == 0:
        return None
    bounded = min(max(value, lowest), highest) if value > 0 else None
    if bounded != value:
        became = "ignored" if bounded is None else f"{bounded:g} is used"
        changes.append(
            Adjustment(field, f"{field} {value:g} is not within {lowest:g} to {highest:g}: {became}")
        )
    return bounded


def _bounded_backoff(backoff: Backoff, changes: list[Adjustment]) -> Backoff:
    attempts = _bounded("max_attempts", backoff.max_attempts, 1, MAX_INT32, changes)
    steps = backoff.steps[:MAX_BACKOFF_STEPS]
    if len(backoff.steps) > MAX_BACKOFF_STEPS:
        changes.append(
            Adjustment("next", f"next has more than {MAX_BACKOFF_STEPS} steps: the first ones are used")
        )
    longest, shortest = max(steps, default=0.0), min(steps, default=0.0)
    if longest > MAX_BACKOFF or shortest < 0:
        worst = longest if longest > MAX_BACKOFF else shortest
        changes.append(
            Adjustment("next", f"next has a step of {worst:g} s, not within 0 to {MAX_BACKOFF:g}: adjusted")
        )
        steps = tuple(min(max(step, 0.0), MAX_BACKOFF) for step in steps)
    return Backoff(
        max_attempts=attempts or DEFAULT_CONSUMER_ATTEMPTS,
        steps=steps,
        initial=_bounded("initial", backoff.initial, 0.0, MAX_BACKOFF, changes) or 0.0,
        maximum=_bounded("max", backoff.maximum, 0.0, MAX_BACKOFF, changes) or 0.0,
        multiplier=_bounded("multiplier", backoff.multiplier, MIN_MULTIPLIER, MAX_MULTIPLIER, changes) or 1.0,
    )


def _checked_metrics(endpoint: str | None, changes: list[Adjustment]) -> str | None:
    if endpoint is None:
        return None
    try:
        if endpoint.count(";") >= MAX_ADDRESSES:
            raise ValueError(f"it has more than {MAX_ADDRESSES} addresses")
        return str(parse_endpoint(endpoint))
    except ValueError as error:
        changes.append(Adjustment("metric", f"no metrics are exported: {one_line(str(error))}"))
        return None


def check_sizes(addresses: Sequence[int]) -> None:
    """Raise ValueError for a route or assignment that is too large, given the number of addresses of each queue."""
    if len(addresses) > MAX_QUEUES:
        raise ValueError(f"it has {len(addresses)} queues, at most {MAX_QUEUES} are allowed")
    if addresses and max(addresses) > MAX_ADDRESSES:
        raise ValueError(
            f"it has a server with {max(addresses)} addresses, at most {MAX_ADDRESSES} are allowed"
        )
    if sum(addresses) > MAX_ROUTE_ADDRESSES:
        raise ValueError(
            f"its queues have {sum(addresses)} addresses, at most {MAX_ROUTE_ADDRESSES} are allowed"
        )


def check_queue(broker: str, queue_id: int) -> None:
    """Raise ValueError for a queue with an invalid number or broker name."""
    if queue_id < ALL_QUEUES:
        raise ValueError(f"it has a queue {queue_id}, which must be {ALL_QUEUES} or more")
    if len(broker) > MAX_BROKER_NAME or not broker.isprintable():
        raise ValueError(
            f"it has a broker {one_line(broker)!r}, whose name must be at most {MAX_BROKER_NAME} printable characters"
        )


def check_servers(count: int) -> None:
    """Raise ValueError for a route or assignment that names too many servers."""
    if count > MAX_SERVERS:
        raise ValueError(f"it has {count} servers, at most {MAX_SERVERS} are allowed")


def known_us(microseconds: int) -> int | None:
    """Return a server's instant in microseconds since 1970; None outside of the years 1 to 9999, the range of
    timestamps on the wire and of Python's datetime."""
    return microseconds if _FIRST_US <= microseconds <= _LAST_US else None


def clipped(text: str) -> str:
    """Return the beginning of a server's text, with an ellipsis if it is cut."""
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"


def one_line(text: str) -> str:
    """Return a server's text clipped to one line: spaces for white space, escapes for control characters."""
    line = plain(" ".join(clipped(text).split()))
    # Unassigned code points are no control characters, but have no defined glyph.
    return "".join(char if char.isprintable() else escaped(char) for char in line)
