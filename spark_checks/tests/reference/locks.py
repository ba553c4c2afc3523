"""INV-LOCK and INV-LOCK-WORK: one member holds the lock of a queue, and consumes only while it does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from spark_checks.tests.reference.histories import (
    BROKEN,
    SLACK_US,
    Observation,
    Row,
    Violation,
    begin,
    is_exempt,
)

LIVES_US = 60_000_000

_QUEUE = ("group", "topic", "broker", "queue")
_OWNER = ("recorder", "client_id", "epoch", *_QUEUE)


def _key(row: Row, names: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in names)


def _is_granted(row: Row) -> bool:
    return (row["kind"], row["phase"]) == ("lock", "ok")


def _is_lost(row: Row) -> bool:
    return row["kind"] == "unlock" or (row["kind"], row["phase"]) == ("lock", "fail")


def grants(observation: Observation) -> Iterator[Violation]:
    """Yield locks that were granted while another member surely held them."""
    calls = [row for row in observation.of("lock", "unlock") if row.get("client_id")]
    granted = [row for row in calls if _is_granted(row)]
    for place, row in enumerate(granted):
        # A broker that is started again has forgotten all locks.
        whose = (*_QUEUE, "boot") if observation.is_broker else _QUEUE
        before = [each for each in granted[:place] if _key(each, whose) == _key(row, whose)]
        if not before or before[-1]["client_id"] == row["client_id"]:
            continue
        first = before[-1]
        given_up = [
            begin(each)
            for each in calls
            if _is_lost(each)
            and _key(each, ("client_id", *_QUEUE)) == _key(first, ("client_id", *_QUEUE))
            and (begin(each), each["seq"]) > (begin(first), first["seq"])
        ]
        until = min([begin(first) + LIVES_US, *given_up])
        apart = 0 if first["recorder"] == row["recorder"] else SLACK_US
        is_sure = first["t_wall_us"] + apart <= begin(row) and row["t_wall_us"] + apart < until
        if is_sure and not is_exempt(observation, first, row, since=first["t_wall_us"], only="restart"):
            yield Violation("locks", "INV-LOCK", BROKEN, row, first)


def work(observation: Observation) -> Iterator[Violation]:
    """Yield deliveries and handlers without the lock, of clients that take locks."""
    calls = [row for row in observation.of("lock", "unlock") if row.get("client_id")]
    begun = [row for row in observation.of("handle.start", "handle.end", "deliver") if row.get("client_id")]
    begun = [row for row in begun if row.get("role") == ("pull" if row["kind"] == "deliver" else "push")]
    for row in begun:
        if row["kind"] == "handle.end":
            continue
        own = [each for each in calls if _key(each, _OWNER) == _key(row, _OWNER)]
        own.sort(key=lambda each: int(each["seq"]))
        same = [
            each
            for each in begun
            if _key(each, (*_OWNER, "message_id")) == _key(row, (*_OWNER, "message_id"))
        ]
        attempts = [each["attempt"] for each in same if each.get("attempt") is not None]
        if not any(map(_is_granted, own)) or not attempts or min(attempts) > 1:
            continue
        end = min(
            (
                each
                for each in same
                if each["kind"] == "handle.end"
                and each["seq"] > row["seq"]
                and each["attempt"] == row["attempt"]
            ),
            key=lambda each: int(each["seq"]),
            default=None,
        )
        wrong = _without(own, row, end)
        if wrong is None:
            continue
        seq = row["seq"] if wrong is row else wrong["seq"]
        last = [each for each in own if (_is_granted(each) or _is_lost(each)) and each["seq"] < seq]
        granted = [each["t_wall_us"] for each in own if _is_granted(each) and each["seq"] < row["seq"]]
        first = last[-1] if last else row
        since = granted[-1] if granted else float("inf")
        if not is_exempt(observation, first, wrong, since=since, only="restart"):
            yield Violation("locks", "INV-LOCK-WORK", BROKEN, wrong, first)


def _without(own: Sequence[Row], row: Row, end: Row | None) -> Row | None:
    """Return the start or end of a handler that ran without the lock."""
    until = 0
    for each in own:
        if each["seq"] < row["seq"]:
            until = each["t_wall_us"] + LIVES_US if _is_granted(each) else 0 if _is_lost(each) else until
    if row["t_wall_us"] > until:
        return row
    if end is None:
        return None
    for each in own:
        if row["seq"] < each["seq"] < end["seq"]:
            if _is_lost(each) or (_is_granted(each) and begin(each) > until):
                return end
            until = each["t_wall_us"] + LIVES_US if _is_granted(each) else until
    return end if end["t_wall_us"] > until else None
