"""INV-ATTEMPT, INV-LIMIT, INV-DLQ and INV-DLQ-LIVE in plain words: attempts count up to the limit, then it is over."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from spark_checks.tests.oracle.histories import (
    BROKEN,
    POSSIBLE,
    Account,
    Found,
    Row,
    Way,
    begin,
    born,
    by_queue,
    excused,
    grain,
    ways,
)
from spark_checks.tests.oracle.leases import _is_repeated, acked, hold
from spark_checks.tests.oracle.others import REBALANCE_US


def attempts(way: Way) -> Iterator[Found]:
    """Each delivery has the next number; more by as many as answers were lost."""
    account, settings = way.account, way.settings
    for given in way.given:
        row, then = given.row, given.then
        limit = settings.max_attempts
        if row["attempt"] is None:
            continue
        if row["attempt"] < 1 or (limit and row["attempt"] > limit and settings.ordered is False):
            yield Found("attempts", "INV-LIMIT", BROKEN, row)
        if then is None or then["attempt"] is None or way.copies:
            continue
        if excused(account, row, then, acked=acked(given), since=born(way)) or _has_moved(way, then):
            continue
        change = hold(given).change
        taken_back = change is not None and change.get("reason") == "undelivered"
        grown = then["attempt"] - row["attempt"]
        if grown < 1 and not (_is_repeated(row, then) or taken_back or settings.locks_queue):
            yield Found("attempts", "INV-ATTEMPT", BROKEN, then, row)
        knows_best = account.is_broker or not settings.told_by_broker
        if knows_best and grown - 1 > max(0, len(_lost_answers(account, then))):
            yield Found("attempts", "INV-ATTEMPT", BROKEN if account.is_broker else POSSIBLE, then)


def _has_moved(way: Way, then: Row) -> bool:
    """E8: the queue that it was read from again was taken by somebody since it was read there before; of a retry, any
    queue that the message was read from."""
    if not by_queue(then):
        return False
    own, is_retry = _source(then), then["attempt"] > 1
    before: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for given in way.given:
        if _at(given.row) < _at(then) and (is_retry or _source(given.row) == own):
            before[_source(given.row)].append(given.row)
    for source, rows in before.items():
        times = [row["t_wall_us"] for row in rows]
        since = max(times) if source == own else min(times)
        if any(since - REBALANCE_US < at <= then["t_wall_us"] for at in _taken(way.account, source)):
            return True
    return False


def _source(row: Row) -> tuple[Any, ...]:
    topic = f"%RETRY%{row['group']}" if row["attempt"] > 1 else row["topic"]
    return row["group"], topic, row["broker"], row["queue"]


def _taken(account: Account, queue: tuple[Any, ...]) -> Iterator[int]:
    """When somebody took the queue."""
    held: dict[tuple[Any, ...], bool] = {}
    for row in account.of("assign"):
        if grain(row) != "queue" or row.get("topic") != queue[1]:
            continue
        owner = tuple(row.get(name) for name in ("client_id", "recorder", "epoch", "group"))
        owned = {(row["group"], row["topic"], each["broker"], each["queue"]) for each in row["queues"]}
        if queue in owned and not held.get(owner):
            yield row["t_wall_us"]
        held[owner] = queue in owned


def _at(row: Row) -> tuple[int, int]:
    return row["t_wall_us"], row["seq"]


def _lost_answers(account: Account, then: Row) -> list[Row]:
    """E7: polls of the group that ended without anybody knowing what they took."""
    return [
        row
        for row in account.of("receive")
        if row["phase"] == "info"
        and (row["topic"], row["group"]) == (then["topic"], then["group"])
        and begin(row) <= then["t_wall_us"]
    ]


def dead_letters(account: Account) -> Iterator[Found]:
    """On the broker's account: one dead letter, after the last attempt, and nothing afterwards."""
    if account.is_broker:
        by_message: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
        for row in account.of("dlq.deliver", "forward"):
            by_message[row["topic"], row["group"], row["message_id"]].append(row)
        for rows in by_message.values():
            letters = [row for row in rows if row["kind"] == "dlq.deliver"]
            if letters and (wrong := _is_wrong(account, rows, letters)) is not None:
                yield Found("dead letters", "INV-DLQ", BROKEN, wrong)
    for way in ways(account):
        for given in way.given:
            dead = [row["t_wall_us"] for row in given.done if row["kind"] == "dlq.deliver"]
            then = given.then
            comes = then is not None and bool(dead) and min(dead) < begin(then) and not way.copies
            if (
                then is not None
                and comes
                and not excused(account, given.row, then, acked=acked(given), since=born(way))
            ):
                yield Found("dead letters", "INV-DLQ", BROKEN, then)


def _is_wrong(account: Account, rows: list[Row], letters: list[Row]) -> Row | None:
    first, last = letters[0], letters[-1]
    limit = account.settings_of(first["group"]).max_attempts
    numbered = limit is not None and first["attempt"] is not None
    too_soon = numbered and len(rows) == len(letters) and first["attempt"] < limit
    twice = len(letters) > 1
    resent = len({(row["broker"], row["queue"], row["offset"]) for row in letters}) > 1
    return last if too_soon or (twice and not resent) else None


def not_buried(account: Account) -> Iterator[Found]:
    """When a normal group was drained, what had used up its attempts is a dead letter."""
    if not account.is_broker:
        return
    drains = {(row["topic"], row["group"]): row["t_wall_us"] for row in account.of("drain.ok")}
    for way in ways(account):
        last = way.given[-1]
        drained = drains.get((last.row["topic"], last.row["group"]))
        limit = way.settings.max_attempts
        until = hold(last).most
        if (
            drained is None
            or not limit
            or (last.row["attempt"] or 0) < limit
            or way.settings.ordered is not False
        ):
            continue
        over = [row for row in last.done if row["kind"] in ("ack", "forward", "dlq.deliver")]
        if until is not None and drained > until and not over:
            yield Found("dead letters", "INV-DLQ-LIVE", BROKEN, last.row)
