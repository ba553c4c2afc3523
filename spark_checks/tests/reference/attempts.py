"""INV-ATTEMPT, INV-LIMIT, INV-DLQ and INV-DLQ-LIVE: attempts grow up to the limit; then a message is a dead letter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from spark_checks.tests.reference.histories import (
    BROKEN,
    POSSIBLE,
    MessageHistory,
    Observation,
    Row,
    Violation,
    begin,
    born,
    by_queue,
    grain,
    is_exempt,
    message_histories,
)
from spark_checks.tests.reference.leases import _is_repeated, acked, lease_end
from spark_checks.tests.reference.queues import REBALANCE_US


def attempts(history: MessageHistory) -> Iterator[Violation]:
    """Yield deliveries whose attempt is not the next one; lost responses may skip some."""
    observation, settings = history.observation, history.settings
    for delivery in history.deliveries:
        row, then = delivery.row, delivery.then
        limit = settings.max_attempts
        if row["attempt"] is None:
            continue
        if row["attempt"] < 1 or (limit and row["attempt"] > limit and settings.ordered is False):
            yield Violation("attempts", "INV-LIMIT", BROKEN, row)
        if then is None or then["attempt"] is None or history.copies:
            continue
        if is_exempt(observation, row, then, acked=acked(delivery), since=born(history)) or _has_moved(
            history, then
        ):
            continue
        change = lease_end(delivery).change
        uncounted = change is not None and change.get("reason") in ("undelivered", "suspend")
        grown = then["attempt"] - row["attempt"]
        if grown < 1 and not (_is_repeated(row, then) or uncounted or settings.locks_queue):
            yield Violation("attempts", "INV-ATTEMPT", BROKEN, then, row)
        knows_best = observation.is_broker or not settings.from_broker
        if knows_best and grown - 1 > max(0, len(_lost_answers(observation, then))):
            yield Violation("attempts", "INV-ATTEMPT", BROKEN if observation.is_broker else POSSIBLE, then)


def _has_moved(history: MessageHistory, then: Row) -> bool:
    """Return whether the queue was assigned again since the message was read from it (E8); of a retry, any queue that
    it was read from."""
    if not by_queue(then):
        return False
    own, is_retry = _source(then), then["attempt"] > 1
    before: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for delivery in history.deliveries:
        if _at(delivery.row) < _at(then) and (is_retry or _source(delivery.row) == own):
            before[_source(delivery.row)].append(delivery.row)
    for source, rows in before.items():
        times = [row["t_wall_us"] for row in rows]
        since = max(times) if source == own else min(times)
        if any(since - REBALANCE_US < at <= then["t_wall_us"] for at in _taken(history.observation, source)):
            return True
    return False


def _source(row: Row) -> tuple[Any, ...]:
    topic = f"%RETRY%{row['group']}" if row["attempt"] > 1 else row["topic"]
    return row["group"], topic, row["broker"], row["queue"]


def _taken(observation: Observation, queue: tuple[Any, ...]) -> Iterator[int]:
    """Yield the times at which the queue was assigned."""
    end: dict[tuple[Any, ...], bool] = {}
    for row in observation.of("assign"):
        if grain(row) != "queue" or row.get("topic") != queue[1]:
            continue
        owner = tuple(row.get(name) for name in ("client_id", "recorder", "epoch", "group"))
        owned = {(row["group"], row["topic"], each["broker"], each["queue"]) for each in row["queues"]}
        if queue in owned and not end.get(owner):
            yield row["t_wall_us"]
        end[owner] = queue in owned


def _at(row: Row) -> tuple[int, int]:
    return row["t_wall_us"], row["seq"]


def _lost_answers(observation: Observation, then: Row) -> list[Row]:
    """Return polls of the group whose response was lost (E7)."""
    return [
        row
        for row in observation.of("receive")
        if row["phase"] == "info"
        and (row["topic"], row["group"]) == (then["topic"], then["group"])
        and begin(row) <= then["t_wall_us"]
    ]


def dead_letters(observation: Observation) -> Iterator[Violation]:
    """Yield dead letters that are duplicate or too early, as the broker recorded them, and deliveries after one."""
    if observation.is_broker:
        by_message: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
        for row in observation.of("dlq.deliver", "forward"):
            by_message[row["topic"], row["group"], row["message_id"]].append(row)
        for rows in by_message.values():
            letters = [row for row in rows if row["kind"] == "dlq.deliver"]
            if letters and (wrong := _is_wrong(observation, rows, letters)) is not None:
                yield Violation("dead letters", "INV-DLQ", BROKEN, wrong)
    for history in message_histories(observation):
        for delivery in history.deliveries:
            dead = [row["t_wall_us"] for row in delivery.done if row["kind"] == "dlq.deliver"]
            then = delivery.then
            comes = then is not None and bool(dead) and min(dead) < begin(then) and not history.copies
            if (
                then is not None
                and comes
                and not is_exempt(observation, delivery.row, then, acked=acked(delivery), since=born(history))
            ):
                yield Violation("dead letters", "INV-DLQ", BROKEN, then)


def _is_wrong(observation: Observation, rows: list[Row], letters: list[Row]) -> Row | None:
    first, last = letters[0], letters[-1]
    limit = observation.settings_of(first["group"]).max_attempts
    numbered = limit is not None and first["attempt"] is not None
    too_soon = numbered and len(rows) == len(letters) and first["attempt"] < limit
    twice = len(letters) > 1
    resent = len({(row["broker"], row["queue"], row["offset"]) for row in letters}) > 1
    return last if too_soon or (twice and not resent) else None


def not_buried(observation: Observation) -> Iterator[Violation]:
    """Yield messages of a drained normal group that exhausted their attempts without a dead letter."""
    if not observation.is_broker:
        return
    drains = {(row["topic"], row["group"]): row["t_wall_us"] for row in observation.of("drain.ok")}
    for history in message_histories(observation):
        last = history.deliveries[-1]
        drained = drains.get((last.row["topic"], last.row["group"]))
        limit = history.settings.max_attempts
        until = lease_end(last).most
        if (
            drained is None
            or not limit
            or (last.row["attempt"] or 0) < limit
            or history.settings.ordered is not False
        ):
            continue
        over = [row for row in last.done if row["kind"] in ("ack", "forward", "dlq.deliver")]
        if until is not None and drained > until and not over:
            yield Violation("dead letters", "INV-DLQ-LIVE", BROKEN, last.row)
