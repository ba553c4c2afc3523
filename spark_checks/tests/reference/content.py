"""INV-CONTENT, INV-FAILED, INV-ORIGIN, INV-FILTER, INV-ISOLATE, INV-EARLY of delays, INV-LOSS-MID and INV-LOSS."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from spark_checks.tests.reference.histories import (
    BROKEN,
    FOREVER,
    POSSIBLE,
    Observation,
    Row,
    Violation,
    begin,
    by_queue,
)


def delays(observation: Observation) -> Iterator[Violation]:
    """Yield deliveries before the delivery time."""
    for row in _leased(observation):
        due, early = row.get("due_us"), observation.settings_of(row["group"]).early_us
        if due is not None and row["t_wall_us"] < due - early:
            yield Violation("delay", "INV-EARLY", BROKEN, row)


def filters(observation: Observation) -> Iterator[Violation]:
    """Yield deliveries that do not match the filter of their receive."""
    for row in _leased(observation):
        if not is_wanted(row.get("filter"), row.get("tag")):
            yield Violation("filters", "INV-FILTER", BROKEN, row)


def is_wanted(asked: str | None, tag: str | None) -> bool:
    """Return whether a filter matches a tag; filters of other kinds are taken to match."""
    if asked is None or not asked.startswith("TAG:"):
        return True
    tags = [part.strip() for part in asked.removeprefix("TAG:").split("||")]
    return "*" in tags or not any(tags) or (tag or "") in tags


def answers(observation: Observation) -> Iterator[Violation]:
    """Yield deliveries of another topic or group than that of their receive."""
    polls_begun, deliveries = defaultdict[Any, list[Row]](list), defaultdict[Any, list[Row]](list)
    for row in observation.of("receive", "deliver"):
        request = row.get("op_id") if row["kind"] == "receive" else row.get("batch")
        if request and row.get("topic") and row.get("group"):
            polls = polls_begun if row["kind"] == "receive" else deliveries
            polls[row["recorder"], row["boot"], request].append(row)
    for request, rows in deliveries.items():
        places = {(row["topic"], row["group"]) for row in polls_begun[request]}
        foreign = [row for row in rows if (row["topic"], row["group"]) not in places]
        if len(places) == 1 and foreign:
            yield Violation("filters", "INV-ISOLATE", BROKEN, min(foreign, key=lambda row: int(row["seq"])))


def lite(observation: Observation) -> Iterator[Violation]:
    """Yield deliveries of lite topics to which the consumer was surely not subscribed."""
    begun = {
        (row["recorder"], row["boot"], row["op_id"]): row["invoked_us"]
        for row in reversed(observation.of("receive"))
        if row.get("op_id")
    }
    lists_by_client = _lists(observation)
    for row in observation.of("deliver"):
        poll = row.get("invoked_seq")
        if observation.is_broker:
            poll = begun.get((row["recorder"], row["boot"], row.get("batch")))
        is_theirs = not observation.is_broker or row.get("role") == "lite"
        if row.get("lite_topic") is not None and is_theirs and poll is not None:
            lists = [each for each in lists_by_client if each.who == _who(row)]
            earlier = [each for each in lists if each.is_whole and each.end < poll]
            name = row["lite_topic"]
            over = [each.begin for each in earlier + [e for e in lists if name in e.removed and e.end < poll]]
            came = row["t_wall_us"] if observation.is_broker else row["seq"]
            ends = [each.end for each in lists if name in each.subscribed and each.begin <= came]
            if earlier and max(ends, default=-1) < max(over):
                yield Violation("filters", "INV-ISOLATE", BROKEN, row)


@dataclass(frozen=True, slots=True)
class _List:
    """A change of a lite subscription, from the call to the response; FOREVER if there is none."""

    who: tuple[Any, ...]
    begin: float
    end: float
    is_whole: bool
    subscribed: frozenset[str]
    removed: frozenset[str]


def _who(row: Row) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in ("recorder", "boot", "client_id", "group", "topic"))


def _lists(observation: Observation) -> list[_List]:
    calls = defaultdict[Any, list[Row]](list)
    for row in observation.of("lite.sync"):
        calls[_who(row), row.get("op_id") or row["seq"]].append(row)
    lists = []
    for (who, _), rows in calls.items():
        if any(row.get("phase") == "fail" for row in rows):
            continue
        place, called = ("t_wall_us", "invoked_us") if observation.is_broker else ("seq", "invoked_seq")
        begins = [row[place] if row.get(called) is None else row[called] for row in rows]
        ends = [row[place] for row in rows if row.get("phase") in (None, "ok")]
        cfg = dict(rows[0]["cfg"])
        names = {key: frozenset(cfg[key].split(",")) for key in ("all", "add", "remove") if key in cfg}
        subscribed = names.get("all", frozenset()) | names.get("add", frozenset())
        removed = names.get("remove", frozenset())
        lists.append(_List(who, min(begins), max(ends, default=FOREVER), "all" in names, subscribed, removed))
    return lists


def origin(observation: Observation) -> Iterator[Violation]:
    """Yield deliveries of messages that were not sent, were refused, or have other content."""
    began = min((row["t_wall_us"] for row in observation.of("recorder.start")), default=None)
    delivered, sent = defaultdict[str, list[Row]](list), defaultdict[str, list[Row]](list)
    for row in observation.of("deliver"):
        delivered[row["message_id"]].append(row)
    for row in observation.of("send"):
        sent[row["message_id"]].append(row)
    for message, rows in delivered.items():
        name = _wrong_origin(observation, rows, sent[message], began)
        if name is not None:
            yield Violation("origin", name, BROKEN, min(rows, key=lambda row: int(row["t_wall_us"])))


def _wrong_origin(
    observation: Observation, given: list[Row], sent: list[Row], began: int | None
) -> str | None:
    for column in ("body_sha", "props_sha"):
        was = {row[column] for row in sent if row.get(column) is not None}
        came = {row[column] for row in given if row.get(column) is not None}
        # Sends of one id with different bodies say nothing.
        if len(was) == 1 and came - was:
            return "INV-CONTENT"
    answers = [row["phase"] for row in sent if row["phase"] in ("ok", "fail", "info")]
    calls = [row for row in sent if row["phase"] == "invoke"]
    if answers and set(answers) == {"fail"} and len(calls) <= len(answers):
        return "INV-FAILED"
    first = min(given, key=lambda row: int(row["t_wall_us"]))
    stored = first.get("store_us")
    is_new = observation.is_broker and began is not None and stored is not None and stored > began
    return "INV-ORIGIN" if is_new and not sent else None


def passed_over(observation: Observation) -> Iterator[Violation]:
    """Yield skipped messages between the lowest and the highest delivered offset of a queue (INV-LOSS-MID)."""
    reset = {row["group"] for row in observation.of("reset")}
    left = _left(observation)
    windows: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in observation.firsts():
        if _is_leased(observation, row) and row["group"] not in reset:
            # An ordered group leaves a message group alone while one of its messages is end.
            is_free = observation.settings_of(row["group"]).ordered is False
            lane = None if is_free else row.get("message_group") or ""
            windows[*_queue(row), row["group"], lane].append(row)
    begins = dict[tuple[Any, ...], float]()
    for *queue, group, _ in windows:
        mine = [row for key, more in windows.items() if key[:-1] == (*queue, group) for row in more]
        begins[*queue, group] = min(row["t_wall_us"] for row in mine)
    # Each lost message is reported once.
    delivered = {
        (row["group"], row["message_id"]) for row in observation.of("deliver") if row.get("role") != "pull"
    }
    for (*queue, group, lane), rows in windows.items():
        expression = _wanted(observation, rows[0]["topic"], group)
        if expression is None:
            continue
        if not observation.is_broker and observation.settings_of(group).from_broker:
            continue
        low, high = min(row["offset"] for row in rows), max(row["offset"] for row in rows)
        began = begins[*queue, group]
        for row in _receipts(observation):
            # An ordered group begins with the first one that was stored when it read the queue already.
            from_here = 0 if lane is not None and row["t_wall_us"] > began else low
            here = (
                list(_queue(row)) == queue
                and max(from_here, left.get(_queue(row), 0)) <= row["offset"] <= high
            )
            here = here and lane in (None, row.get("message_group") or "")
            if here and is_wanted(expression, row.get("tag")) and (group, row["message_id"]) not in delivered:
                delivered.add((group, row["message_id"]))
                yield Violation("loss", "INV-LOSS-MID", BROKEN if observation.is_broker else POSSIBLE, row)


def _wanted(observation: Observation, topic: str, group: str) -> str | None:
    """The tags that a group asks for; None if they are unknown, or not always the same."""
    filters = observation.filters_of(topic, group)
    expression = next(iter(filters), "TAG:*")
    return expression if len(filters) <= 1 and expression.startswith("TAG:") else None


def drained(observation: Observation) -> Iterator[Violation]:
    """Yield messages that a drained group has neither settled nor dead-lettered (INV-LOSS)."""
    reset = {row["group"] for row in observation.of("reset")}
    for drain in _last_drains(observation):
        topic, group = drain["topic"], drain["group"]
        mine = [row for row in observation.rows if (row.get("topic"), row.get("group")) == (topic, group)]
        polls = [row for row in mine if row["kind"] in ("receive", "deliver")]
        expression = _wanted(observation, topic, group)
        if not polls or expression is None or group in reset:
            continue
        settings = observation.settings_of(group)
        if settings.from_broker and not observation.is_broker:
            continue
        primed = min(begin(row) for row in polls)
        over = {row["message_id"] for row in mine if _ends(row)}
        if settings.max_attempts and not observation.is_broker:
            deliveries = [row for row in polls if row["kind"] == "deliver"]
            over |= {row["message_id"] for row in deliveries if row["attempt"] >= settings.max_attempts}
        for row, visible in _visible(observation, topic):
            in_time = row["t_wall_us"] > primed and max(visible, row.get("due_us") or 0) < begin(drain)
            if in_time and is_wanted(expression, row.get("tag")) and row["message_id"] not in over:
                yield Violation("loss", "INV-LOSS", BROKEN if observation.is_broker else POSSIBLE, row)


def _ends(row: Row) -> bool:
    if row["kind"] == "deliver":
        return by_queue(row)
    return row["kind"] == "dlq.deliver" or (row["kind"] in ("ack", "forward") and row.get("phase") != "fail")


def _visible(observation: Observation, topic: str) -> Iterator[tuple[Row, int]]:
    """Yield messages that the server surely stored, and since when they are visible."""
    gone = {row["message_id"] for row in observation.of("recall") if row.get("phase") != "fail"}
    commits = {
        row["tx_id"]: row["t_wall_us"]
        for row in observation.of("tx.end")
        if (row["phase"], row["resolution"]) == ("ok", "commit")
    }
    left = _left(observation)
    ids: set[str] = set()
    for row in observation.of("send"):
        if row["phase"] != "ok" or row["topic"] != topic or row["message_id"] in gone | ids:
            continue
        ids.add(row["message_id"])
        visible = row["t_wall_us"] if row.get("tx_id") is None else commits.get(row["tx_id"])
        is_left = row.get("offset") is None or row["offset"] >= left.get(_queue(row), 0)
        if visible is not None and is_left:
            yield row, visible


def _last_drains(observation: Observation) -> list[Row]:
    return list({(row["topic"], row["group"]): row for row in observation.of("drain.ok")}.values())


def _leased(observation: Observation) -> list[Row]:
    return [row for row in observation.of("deliver") if _is_leased(observation, row)]


def _is_leased(observation: Observation, row: Row) -> bool:
    group = row.get("group")
    return row.get("role") != "pull" and group is not None and not observation.settings_of(group).broadcast


def _receipts(observation: Observation) -> list[Row]:
    """Return sends whose receipt has the offset at which the message is delivered."""
    return [
        row
        for row in observation.of("send")
        if row["phase"] == "ok"
        and row.get("offset") is not None
        and row.get("queue") is not None
        and (row.get("due_us"), row.get("tx_id"), row.get("lite_topic")) == (None, None, None)
    ]


def _queue(row: Row) -> tuple[Any, ...]:
    return row["topic"], row["broker"], row["queue"]


def _left(observation: Observation) -> dict[tuple[Any, ...], int]:
    """Return the oldest retained offset of each queue."""
    left: dict[tuple[Any, ...], int] = {}
    for row in observation.of("trim"):
        left[_queue(row)] = max(left.get(_queue(row), 0), row["commit_offset"])
    return left
