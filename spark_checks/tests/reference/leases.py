"""INV-EXCL, INV-ACKED, INV-EARLY and INV-LATE: a message is invisible while it is leased and after an ack, and is
redelivered in time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from spark_checks.tests.reference.histories import (
    BROKEN,
    POSSIBLE,
    Delivery,
    MessageHistory,
    Row,
    Violation,
    begin,
    born,
    is_about,
    is_exempt,
    message_histories,
)

PARKED_US = 30_000_000
"""Longer than any poll."""


@dataclass(frozen=True, slots=True)
class LeaseEnd:
    """The earliest and latest end of a lease, as of the next delivery; None if unknown."""

    least: int | None
    most: int | None
    change: Row | None
    """The last change that surely took effect."""
    unsure: bool
    """Whether a change may or may not have taken effect."""
    maybe: bool
    """Whether one of those has no response."""


def lease_end(given: Delivery) -> LeaseEnd:
    """Return the end of a lease after all of its changes."""
    changes = [row for row in given.done if row["kind"] == "change" and is_about(row, given)]
    sure = [row for row in changes if row["phase"] == "ok"]
    maybe = [row for row in changes if row["phase"] == "info"]
    length = given.length
    ends = [] if length is None else [(_given(given.row) + length, given.row["t_wall_us"] + length)]
    change, crossing = None, False
    if sure:
        change = sure[-1]
        crossing = given.then is not None and change["t_wall_us"] > given.then["t_wall_us"]
        moved = _end(change)
        # A change that was answered after the next delivery may have been too late.
        ends = [*ends, moved] if crossing else [moved]
    ends += [_end(row) for row in maybe]
    if length is None and not sure:
        return LeaseEnd(None, None, None, bool(maybe), bool(maybe))
    return LeaseEnd(
        min(least for least, _ in ends),
        max(most for _, most in ends),
        change,
        bool(maybe) or crossing,
        bool(maybe),
    )


def _given(row: Row) -> int:
    """Return the earliest time of a delivery: not before the message was stored."""
    return min(max(begin(row), row.get("store_us") or 0), int(row["t_wall_us"]))


def _end(change: Row) -> tuple[int, int]:
    length = change["invisible_ms"] * 1000
    return begin(change) + length, change["t_wall_us"] + length


def acked(given: Delivery) -> int | None:
    """Return when an ack of this delivery was first answered OK."""
    times = [
        row["t_wall_us"]
        for row in given.done
        if row["kind"] == "ack" and row["phase"] == "ok" and is_about(row, given)
    ]
    return min(times, default=None)


def was_asked_for(history: MessageHistory, given: Delivery, end: LeaseEnd) -> bool:
    """Return whether the lease ends at the time for which a retry was requested."""
    change = end.change
    if change is None or end.maybe:
        return False
    if change.get("reason") in ("retry", "suspend", "extend"):
        return bool(change["reason"] != "extend")
    steps, attempt, length = history.settings.steps_us, given.row["attempt"], given.length
    is_step = (
        attempt >= 1 and bool(steps) and change["invisible_ms"] * 1000 == steps[min(attempt, len(steps)) - 1]
    )
    climbs = is_step and change.get("reason") is None and change.get("role") != "simple"
    return climbs or (length is not None and _end(change)[0] < _given(given.row) + length)


def redeliveries(history: MessageHistory) -> Iterator[Violation]:
    """Yield redeliveries of leased or acked messages."""
    settings = history.settings
    knows_less = settings.from_broker and not history.observation.is_broker
    for delivery in history.deliveries:
        then = delivery.then
        if then is None or _is_repeated(delivery.row, then):
            continue
        end, ack = lease_end(delivery), acked(delivery)
        in_time = ack is not None and (end.least is None or ack <= end.least)
        early = end.least is not None and then["t_wall_us"] < end.least - settings.early_us
        perhaps = end.most is not None and then["t_wall_us"] < end.most - settings.early_us and not knows_less
        if not (in_time or early or perhaps) or history.copies:
            continue
        may_precede = then.get("invisible_ms") is not None and (
            begin(then) + then["invisible_ms"] * 1000 <= delivery.row["t_wall_us"] + settings.early_us
        )
        definite = (in_time or early) and not may_precede
        if (end.unsure and not definite) or is_exempt(
            history.observation, delivery.row, then, acked=ack, since=born(history)
        ):
            continue
        if _is_behind_a_gap(history, delivery, then):
            continue
        is_requested = was_asked_for(history, delivery, end) and not in_time
        check = "retry timing" if is_requested else "double delivery"
        name = "INV-EARLY" if is_requested else "INV-EXCL"
        if in_time and ack is not None and ack < then["t_wall_us"]:
            name = "INV-ACKED"
        acked_at = ack if name == "INV-ACKED" else None
        yield Violation(check, name, BROKEN if definite else POSSIBLE, then, delivery.row, acked_at)


def _is_repeated(first: Row, then: Row) -> bool:
    """Return whether one request was answered twice (E6)."""
    return bool(first.get("receive_attempt")) and first.get("receive_attempt") == then.get("receive_attempt")


def _is_behind_a_gap(history: MessageHistory, given: Delivery, then: Row) -> bool:
    """Return whether the group locks queues, and an earlier message of the same response was not acked by then (E5)."""
    if not history.settings.locks_queue or given.row.get("batch") is None:
        return False
    return any(
        other.row["batch"] == given.row["batch"]
        and other.row["offset"] < given.row["offset"]
        and ((ack := acked(other)) is None or ack > then["t_wall_us"])
        for beside in message_histories(history.observation)
        for other in beside.deliveries
        if other.row["recorder"] == given.row["recorder"]
    )


def lateness(history: MessageHistory) -> Iterator[Violation]:
    """Yield messages that were not delivered to a poll that lasted from the end of a lease to the bound."""
    observation, settings = history.observation, history.settings
    if settings.ordered or settings.max_attempts is None or history.copies:
        return
    told = history.deliveries[0].row
    if len(observation.filters_of(told["topic"], told["group"])) > 1:
        return  # the poll may have been for other messages
    polls = [
        row for row in observation.of("receive") if row["phase"] == "ok" and row.get("invoked_us") is not None
    ]
    done = any(
        row["kind"] != "change"
        for row in history.others
        if begin(row) >= history.deliveries[0].row["t_wall_us"]
    )
    for delivery in history.deliveries:
        end, row, then = lease_end(delivery), delivery.row, delivery.then
        if end.most is None or end.unsure or acked(delivery) is not None:
            continue
        bound = end.most + settings.late_us
        if then is None and (done or (row["attempt"] is None or row["attempt"] >= settings.max_attempts)):
            continue
        if (observation.ended if then is None else then["t_wall_us"]) <= bound:
            continue
        if then is not None and then["t_wall_us"] - PARKED_US < begin(then) <= end.most:
            continue
        if any(
            (poll["topic"], poll["group"]) == (row["topic"], row["group"])
            and poll.get("queue") in (None, row["queue"])
            and poll["invoked_us"] <= end.most
            and poll["t_wall_us"] >= bound
            for poll in polls
        ):
            comes = {**row, "t_wall_us": observation.ended, "recorder": None} if then is None else then
            if not is_exempt(observation, row, comes, since=born(history), only="restart"):
                yield Violation(
                    "retry timing", "INV-LATE", BROKEN, row if then is None else then, row, due=end.most
                )
