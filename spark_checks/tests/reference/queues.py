"""Transactions, recalls, queues and offsets: INV-TX, INV-TX-CHECK, INV-RECALL, INV-ASSIGN, INV-PULL-ORD, INV-OFFSET,
INV-OFFSET-ORD, INV-COMMIT, INV-FAIR and INV-HANDLE."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from spark_checks.tests.reference.content import _queue, _receipts
from spark_checks.tests.reference.histories import (
    BROKEN,
    POSSIBLE,
    Observation,
    Row,
    Violation,
    begin,
    grain,
    is_exempt,
    is_read,
)

CHECKED_US, RACE_US, REBALANCE_US, STANDSTILL_US = 31_000_000, 1_000_000, 30_000_000, 60_000_000


def _by(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row.get(name) for name in names)].append(row)
    return groups


def transactions(observation: Observation) -> Iterator[Violation]:
    """Yield half messages delivered without a commit, and checks after a decision."""
    rows = [row for row in observation.of("send", "deliver", "tx.end", "tx.check") if row.get("tx_id")]
    for transaction, its_rows in _by(rows, "topic", "tx_id").items():
        deliveries = [row for row in its_rows if row["kind"] == "deliver"]
        ends = [row for row in its_rows if row["kind"] == "tx.end" and row.get("phase") not in ("fail",)]
        if len(deliveries) == len(its_rows):
            continue
        commits = [begin(row) for row in ends if row["resolution"] == "commit"]
        rolled = any((row["resolution"], row["phase"]) == ("rollback", "ok") for row in ends)
        if deliveries and not (commits and min(commits) <= deliveries[0]["t_wall_us"]):
            proven = observation.is_broker or rolled or bool(commits)
            yield Violation("transactions", "INV-TX", BROKEN if proven else POSSIBLE, deliveries[0])
        decided = [
            row for row in ends if row["phase"] == "ok" and row["resolution"] in ("commit", "rollback")
        ]
        checks = [row for row in its_rows if row["kind"] == "tx.check"]
        halves = observation.halves[transaction]
        if not checks or not decided or halves > 1:
            continue
        first, last = decided[0], checks[-1]
        late = last["t_wall_us"] > first["t_wall_us"] + CHECKED_US
        if late and not is_exempt(observation, first, last, acked=first["t_wall_us"], only="restart"):
            verdict = BROKEN if halves == 1 else POSSIBLE
            yield Violation("transactions", "INV-TX-CHECK", verdict, last, first)


def recalls(observation: Observation) -> Iterator[Violation]:
    """Yield deliveries of messages that were recalled in time."""
    for (topic, message), rows in _by(observation.of("recall"), "topic", "message_id").items():
        at = min((row["t_wall_us"] for row in rows if row["phase"] == "ok"), default=None)
        message_histories = [
            row
            for row in observation.of("send", "deliver")
            if (row["topic"], row["message_id"]) == (topic, message)
        ]
        due = max((row["due_us"] for row in message_histories if row.get("due_us") is not None), default=None)
        deliveries = [row for row in message_histories if row["kind"] == "deliver"]
        if at is not None and due is not None and at < due - RACE_US and deliveries:
            yield Violation("recall", "INV-RECALL", BROKEN, deliveries[0])


def owners(observation: Observation) -> Iterator[Violation]:
    """Yield assignments of a queue to two consumers for longer than a rebalance takes."""
    runs: dict[tuple[Any, ...], list[tuple[int, int, str, Row]]] = defaultdict(list)
    for lives in _by(
        observation.of("assign", "client.stop", "client.crash"), "client_id", "recorder", "epoch"
    ).values():
        open_runs: dict[tuple[Any, ...], tuple[int, Row]] = {}
        for place, row in enumerate(lives):
            if row["kind"] != "assign" or grain(row) != "queue" or row.get("topic") is None:
                continue
            # An assignment without a topic, as in early recordings, is about all of them.
            of_all = [
                each for each in lives[place + 1 :] if each["kind"] != "assign" or not each.get("topic")
            ]
            of_topic = [each for each in lives[place + 1 :] if each.get("topic") == row["topic"]]
            then = min((*of_all[:1], *of_topic[:1]), key=_at, default=None)
            until = observation.ended if then is None else then["t_wall_us"]
            next_owned = _owned(then)
            for queue in _owned(row):
                since, first = open_runs.pop(queue, (row["t_wall_us"], row))
                if queue in next_owned:
                    open_runs[queue] = (since, first)
                else:
                    runs[queue].append((since, until, row["client_id"], first))
    for end in runs.values():
        for since, until, client, first in end:
            earlier = [
                min(until, other_until) - since
                for other_since, other_until, other, _ in end
                if other != client and (other_since, other) < (since, client)
            ]
            if max(earlier, default=0) > REBALANCE_US:
                yield Violation("queues", "INV-ASSIGN", BROKEN, first)


def _owned(row: Row | None) -> set[tuple[Any, ...]]:
    if row is None or row["kind"] != "assign" or row.get("topic") is None:
        return set()
    return {(row["group"], row["topic"], each["broker"], each["queue"]) for each in row["queues"]}


def pulled(observation: Observation) -> Iterator[Violation]:
    """Yield reads of a queue out of order without an assignment or seek in between."""
    reads = [row for row in observation.of("deliver") if is_read(row)]
    moves = [
        row for row in observation.of("assign", "seek") if row["kind"] == "seek" or grain(row) != "message"
    ]
    for rows in _by(reads, "group", "topic", "broker", "queue", "client_id", "recorder").values():
        for first, then in pairwise(sorted(rows, key=lambda row: int(row["seq"]))):
            moved = any(
                row.get("client_id") == then["client_id"]
                and first["seq"] < row["seq"] < then["seq"]
                and row["recorder"] == then["recorder"]
                for row in moves
            )
            if then["offset"] <= first["offset"] and not moved and not is_exempt(observation, first, then):
                yield Violation("queues", "INV-PULL-ORD", BROKEN, then, first)


def places(observation: Observation) -> Iterator[Violation]:
    """Yield offsets with two messages; after a lost response, a first attempt may have an offset of the retry topic."""
    lost = [
        row
        for row in observation.of("receive")
        if row["phase"] == "info" and observation.observer == "client"
    ]
    firsts = [
        row
        for row in observation.firsts()
        if row.get("lite_topic") is None
        and not any(poll["group"] == row["group"] and begin(poll) <= row["t_wall_us"] for poll in lost)
    ]
    for rows in _by([*_receipts(observation), *firsts], "topic", "broker", "queue", "offset").values():
        rows.sort(key=lambda row: int(row["t_wall_us"]))
        messages = {row["message_id"] for row in rows}
        if len(messages) > 1:
            second = next(row for row in rows if row["message_id"] != rows[0]["message_id"])
            if not is_exempt(observation, {**rows[0], "group": None, "client_id": None}, second):
                yield Violation("offsets", "INV-OFFSET", BROKEN, second, rows[0])


def serial(observation: Observation) -> Iterator[Violation]:
    """Yield sends whose offset is not above that of a send completed before."""
    for rows in _by(_receipts(observation), "topic", "broker", "queue", "recorder", "client_id").values():
        for first, then in pairwise(rows):
            called = then["seq"] if then.get("invoked_seq") is None else then["invoked_seq"]
            after = (first["t_wall_us"], first["seq"]) < (begin(then), called)
            wrong = after and then["offset"] <= first["offset"]
            if wrong and not is_exempt(observation, {**first, "group": None, "client_id": None}, then):
                yield Violation("offsets", "INV-OFFSET-ORD", BROKEN, then, first)


def progress(observation: Observation) -> Iterator[Violation]:
    """Yield commits that fall, or are ahead of what was read."""
    rows = observation.of("commit", "deliver", "assign")
    for queue in {(row["group"], *_queue(row)) for row in rows if row["kind"] == "commit"}:
        if observation.settings_of(queue[0]).broadcast:
            continue
        last, highest, begun, read, filtered = None, None, None, None, False
        for row in rows:
            if row["kind"] == "assign":
                begun = row if grain(row) == "queue" and queue in _owned(row) else begun
            elif (row.get("group"), *_queue(row)) != queue:
                continue
            elif is_read(row):
                highest = row if highest is None or row["offset"] > highest["offset"] else highest
                read, filtered = row, filtered or row.get("filter") not in (None, "TAG:*")
            elif row["kind"] == "commit" and row.get("commit_offset") is not None:
                fell = last is not None and row["commit_offset"] < last["commit_offset"]
                is_after_begin = begun is None or (read is not None and _at(read) > _at(begun))
                ahead = (
                    highest is not None
                    and row["commit_offset"] > highest["offset"] + 1
                    and is_after_begin
                    and not filtered
                )
                proof = last if fell else highest
                if (
                    (fell or ahead)
                    and proof is not None
                    and not is_exempt(observation, {**proof, "client_id": None}, row)
                ):
                    yield Violation("commits", "INV-COMMIT", BROKEN, row, proof)
                last = row


def _at(row: Row) -> tuple[int, int]:
    return row["t_wall_us"], row["seq"]


def fairness(observation: Observation) -> Iterator[Violation]:
    """Yield stalls of a normal group's queue of a minute or more in spite of polls."""
    deliveries = [
        row
        for row in observation.of("deliver")
        if row["attempt"] == 1
        and row.get("store_us") is not None
        and row.get("lite_topic") is None
        and observation.settings_of(row["group"]).ordered is False
    ]
    polls = [
        row for row in observation.of("receive") if row["phase"] == "ok" and row.get("invoked_us") is not None
    ]
    for rows in _by(deliveries, "topic", "group", "broker", "queue").values():
        for first, then in pairwise(rows):
            waited = [row for row in rows if row["t_wall_us"] >= then["t_wall_us"]]
            ready = min(max(row["store_us"], row.get("due_us") or 0) for row in waited)
            since = max(first["t_wall_us"], ready)
            polled = any(
                (row["topic"], row["group"]) == (then["topic"], then["group"])
                and row.get("queue") in (None, then["queue"])
                and since < row["invoked_us"]
                and row["t_wall_us"] < then["t_wall_us"]
                for row in polls
            )
            # A poll with another filter may have found nothing that it wanted.
            alike = len(observation.filters_of(then["topic"], then["group"])) <= 1
            if then["t_wall_us"] - since >= STANDSTILL_US and polled and alike:
                yield Violation("fairness", "INV-FAIR", BROKEN if observation.is_broker else POSSIBLE, then)


def handles(observation: Observation) -> Iterator[Violation]:
    """Yield handles of more than one delivery or message."""
    used = [
        row
        for row in observation.of("deliver", "ack", "change", "forward")
        if row.get("delivery")
        and row.get("message_id")
        and (row["kind"] == "deliver" or row["phase"] == "ok")
    ]
    for rows in _by(used, "delivery").values():
        deliveries = [row for row in rows if row["kind"] == "deliver"]
        requests = {(row.get("receive_attempt"), row.get("batch_pos")) for row in deliveries}
        repeated = len(requests) == 1 and all(row.get("receive_attempt") for row in deliveries)
        several = len({row["message_id"] for row in rows}) > 1
        if deliveries and ((len(deliveries) > 1 and not repeated) or several):
            yield Violation("handles", "INV-HANDLE", BROKEN, rows[-1])
