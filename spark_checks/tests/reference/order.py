"""INV-ORD, INV-ORD-FIRST, INV-ORD-HANDLE: each first delivery against the earlier ones of its message group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spark_checks.tests.reference.histories import (
    BROKEN,
    FOREVER,
    SLACK_US,
    MessageHistory,
    Observation,
    Row,
    Violation,
    begin,
    by_queue,
    is_exempt,
    message_histories,
)
from spark_checks.tests.reference.leases import lease_end


def settled(history: MessageHistory) -> float:
    """Return when a message was completed at the earliest; FOREVER if it was not, and attempts are left."""
    ends: list[float] = [
        begin(row)
        for delivery in history.deliveries
        for row in delivery.done
        if row["kind"] in ("ack", "forward", "dlq.deliver") and row.get("phase") in (None, "ok", "info")
    ]
    last = history.deliveries[-1]
    if last.row["attempt"] >= (history.settings.max_attempts or 1):
        # The broker ends it after the last attempt, unseen by consumers.
        until = lease_end(last).least
        ends.append(begin(last.row) if until is None else until)
    return min(ends, default=FOREVER)


def order(observation: Observation) -> Iterator[Violation]:
    """Yield deliveries while an earlier message of the message group was in flight."""
    ordered = [history for history in message_histories(observation) if _is_ordered(history)]
    for history in ordered:
        first = history.deliveries[0].row
        beside = [other for other in ordered if other is not history and _lane(other) == _lane(history)]
        yield from _judged(observation, first, beside)


def _judged(observation: Observation, first: Row, beside: Sequence[MessageHistory]) -> Iterator[Violation]:
    topics = {str(row["topic"]) for row in observation.of("receive", "deliver")}
    if any(len(observation.filters_of(topic, first["group"])) > 1 for topic in topics):
        return  # a member with a narrower one may have passed over messages (E9)
    passed: list[Row] = []
    opened: list[tuple[float, int, Row]] = []
    for other in beside:
        before = [each for each in other.deliveries if _at(each.row) < _at(first)]
        if not before:
            continue
        row = before[0].row
        if row["offset"] > first["offset"] and row["t_wall_us"] <= first["t_wall_us"] - _apart(row, first):
            passed.append(row)
        last = before[-1]
        end = min(settled(other), FOREVER if last.then is None else last.then["t_wall_us"])
        same = (last.row["recorder"], last.row.get("batch")) == (first["recorder"], first.get("batch"))
        is_ahead = row["offset"] < first["offset"] and not (same and first.get("batch") is not None)
        # Whoever ended it may have told so by another clock.
        tellers = {row["recorder"] for delivery in other.deliveries for row in (delivery.row, *delivery.done)}
        apart = SLACK_US if len(tellers) > 1 else _apart(last.row, first)
        if is_ahead and end > first["t_wall_us"] + apart:
            opened.append((end, last.row["offset"], last.row))
    # With a higher number it is not the first one, though nobody told of those before.
    if passed and first.get("attempt") in (None, 1):
        highest = max(passed, key=lambda row: int(row["offset"]))
        if not is_exempt(observation, {**highest, "client_id": None}, first):
            yield Violation("ordering", "INV-ORD-FIRST", BROKEN, first, highest)
    elif opened and not all(
        is_exempt(observation, {**row, "client_id": None}, first) for _, _, row in opened
    ):
        _, _, latest = max(opened, key=lambda each: each[:2])
        yield Violation("ordering", "INV-ORD", BROKEN, first, latest)


def handlers(observation: Observation) -> Iterator[Violation]:
    """Yield handlers that overlap with another one of their message group."""
    handled = [
        row
        for row in observation.of("deliver", "change", "handle.start", "handle.end")
        if row.get("message_group")
        and row.get("role") == "push"
        and observation.settings_of(row["group"]).ordered
    ]
    begun: list[tuple[Row, float]] = []
    for row in sorted((row for row in handled if row["kind"] == "handle.start"), key=_at):
        lane = [row.get(name) for name in _HANDLED_IN]
        until = _at_work(row, handled)
        beside = [
            other
            for other, other_until in begun
            if [other.get(name) for name in _HANDLED_IN] == lane
            and _are_beside(other, other_until, row, until)
        ]
        if beside and not all(is_exempt(observation, other, row) for other in beside):
            yield Violation("ordering", "INV-ORD-HANDLE", BROKEN, row, beside[-1])
        begun.append((row, until))


def _are_beside(first: Row, first_until: float, then: Row, until: float) -> bool:
    """Return whether two handlers surely overlapped, in spite of the difference of clocks."""
    apart = _apart(first, then)
    surely_first = bool(first["t_wall_us"] + apart <= then["t_wall_us"])
    went_on = bool(first_until > then["t_wall_us"] + apart)
    return went_on and (surely_first or until > first["t_wall_us"] + apart)


_HANDLED_IN = ("topic", "group", "broker", "queue", "message_group")
_HANDLED_BY = (*_HANDLED_IN, "message_id", "offset", "attempt", "recorder", "client_id")


def _at_work(start: Row, told: Sequence[Row]) -> float:
    """Return the time until which a handler surely ran with a lease."""
    whose = [start.get(name) for name in _HANDLED_BY]
    mine = [row for row in told if [row.get(name) for name in _HANDLED_BY] == whose]
    mine.sort(key=lambda row: int(row["seq"]))
    lease: float | None = None
    for row in mine:
        if row["kind"] == "deliver" and row["seq"] > start["seq"]:
            break
        lease_end = None if row.get("invisible_ms") is None else begin(row) + row["invisible_ms"] * 1000
        if row["kind"] == "deliver":
            lease = FOREVER if row.get("auto_renew") else lease_end
        elif row["kind"] == "change" and row["phase"] == "ok":
            lease = lease if lease_end is None else lease_end
        elif row["kind"] == "handle.end" and row["seq"] > start["seq"]:
            return 0 if lease is None else min(row["t_wall_us"], lease)
    # A renewed lease without an end is that of a client which is gone: nobody knows since when.
    return 0 if lease in (None, FOREVER) else lease


def _is_ordered(history: MessageHistory) -> bool:
    row = history.deliveries[0].row
    is_placed = row.get("message_group") and row.get("offset") is not None and not by_queue(row)
    return bool(history.settings.ordered and is_placed)


def _lane(history: MessageHistory) -> tuple[object, ...]:
    row = history.deliveries[0].row
    return row["topic"], row["group"], row["message_group"], row["broker"], row["queue"]


def _at(row: Row) -> tuple[int, int]:
    return row["t_wall_us"], row["seq"]


def _apart(earlier: Row, later: Row) -> int:
    """Return the possible difference of two recorders' clocks."""
    return 0 if earlier["recorder"] == later["recorder"] else SLACK_US
