"""INV-ORD and INV-ORD-FIRST in plain words: compare each first delivery with every earlier one of its message group.
INV-ORD-HANDLE: the same of handlers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spark_checks.tests.oracle.histories import (
    BROKEN,
    FOREVER,
    SLACK_US,
    Account,
    Found,
    Row,
    Way,
    begin,
    by_queue,
    excused,
    ways,
)
from spark_checks.tests.oracle.leases import hold


def settled(way: Way) -> float:
    """When a message was over at the earliest; never, if nobody ended it and attempts are left."""
    first = way.given[0].row
    ends: list[float] = [
        begin(row)
        for given in way.given
        for row in given.done
        if row["kind"] in ("ack", "forward", "dlq.deliver") and row.get("phase") in (None, "ok", "info")
    ]
    last = way.given[-1]
    if last.row["attempt"] >= (way.settings.max_attempts or 1):
        # The broker ends it after the last attempt, unseen by consumers.
        until = hold(last).least
        ends.append(begin(last.row) if until is None else until)
    del first
    return min(ends, default=FOREVER)


def order(account: Account) -> Iterator[Found]:
    """A message is handed out when all earlier ones of its message group that were handed out are over."""
    ordered = [way for way in ways(account) if _is_ordered(way)]
    for way in ordered:
        first = way.given[0].row
        beside = [other for other in ordered if other is not way and _lane(other) == _lane(way)]
        yield from _judged(account, first, beside)


def _judged(account: Account, first: Row, beside: Sequence[Way]) -> Iterator[Found]:
    passed: list[Row] = []
    opened: list[tuple[float, int, Row]] = []
    for other in beside:
        before = [each for each in other.given if _at(each.row) < _at(first)]
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
        tellers = {row["recorder"] for given in other.given for row in (given.row, *given.done)}
        apart = SLACK_US if len(tellers) > 1 else _apart(last.row, first)
        if is_ahead and end > first["t_wall_us"] + apart:
            opened.append((end, last.row["offset"], last.row))
    # With a higher number it is not the first one, though nobody told of those before.
    if passed and first.get("attempt") in (None, 1):
        highest = max(passed, key=lambda row: int(row["offset"]))
        if not excused(account, {**highest, "client_id": None}, first):
            yield Found("ordering", "INV-ORD-FIRST", BROKEN, first, highest)
    elif opened and not all(excused(account, {**row, "client_id": None}, first) for _, _, row in opened):
        _, _, latest = max(opened, key=lambda each: each[:2])
        yield Found("ordering", "INV-ORD", BROKEN, first, latest)


def handlers(account: Account) -> Iterator[Found]:
    """A handler begins when all that began before it in its message group are through, or have lost their message."""
    told = [
        row
        for row in account.of("deliver", "change", "handle.start", "handle.end")
        if row.get("message_group")
        and row.get("role") == "push"
        and account.settings_of(row["group"]).ordered
    ]
    begun: list[tuple[Row, float]] = []
    for row in sorted((row for row in told if row["kind"] == "handle.start"), key=_at):
        lane = [row.get(name) for name in _HANDLED_IN]
        until = _at_work(row, told)
        beside = [
            other
            for other, other_until in begun
            if [other.get(name) for name in _HANDLED_IN] == lane
            and _are_beside(other, other_until, row, until)
        ]
        if beside and not all(excused(account, other, row) for other in beside):
            yield Found("ordering", "INV-ORD-HANDLE", BROKEN, row, beside[-1])
        begun.append((row, until))


def _are_beside(first: Row, first_until: float, then: Row, until: float) -> bool:
    """Whether two handlers were at work at once, however far apart the clocks that tell of them are."""
    apart = _apart(first, then)
    surely_first = bool(first["t_wall_us"] + apart <= then["t_wall_us"])
    went_on = bool(first_until > then["t_wall_us"] + apart)
    return went_on and (surely_first or until > first["t_wall_us"] + apart)


_HANDLED_IN = ("topic", "group", "broker", "queue", "message_group")
_HANDLED_BY = (*_HANDLED_IN, "message_id", "offset", "attempt", "recorder", "client_id")


def _at_work(start: Row, told: Sequence[Row]) -> float:
    """Until when a handler worked on a message that was its own, at the least."""
    whose = [start.get(name) for name in _HANDLED_BY]
    mine = [row for row in told if [row.get(name) for name in _HANDLED_BY] == whose]
    mine.sort(key=lambda row: int(row["seq"]))
    lease: float | None = None
    for row in mine:
        if row["kind"] == "deliver" and row["seq"] > start["seq"]:
            break
        asked = None if row.get("invisible_ms") is None else begin(row) + row["invisible_ms"] * 1000
        if row["kind"] == "deliver":
            lease = FOREVER if row.get("auto_renew") else asked
        elif row["kind"] == "change" and row["phase"] == "ok":
            lease = lease if asked is None else asked
        elif row["kind"] == "handle.end" and row["seq"] > start["seq"]:
            return 0 if lease is None else min(row["t_wall_us"], lease)
    # A renewed lease without an end is that of a client which is gone: nobody knows since when.
    return 0 if lease in (None, FOREVER) else lease


def _is_ordered(way: Way) -> bool:
    row = way.given[0].row
    is_placed = row.get("message_group") and row.get("offset") is not None and not by_queue(row)
    return bool(way.settings.ordered and is_placed)


def _lane(way: Way) -> tuple[object, ...]:
    row = way.given[0].row
    return row["topic"], row["group"], row["message_group"], row["broker"], row["queue"]


def _at(row: Row) -> tuple[int, int]:
    return row["t_wall_us"], row["seq"]


def _apart(earlier: Row, later: Row) -> int:
    """How far the clocks of two recorders may be apart."""
    return 0 if earlier["recorder"] == later["recorder"] else SLACK_US
