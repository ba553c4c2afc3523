"""What the checks share: observations of a run, deliveries with the operations on them, exemptions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Row: TypeAlias = Mapping[str, Any]
"""One event of a recording; absent columns read as None."""

FOREVER = float("inf")

BROKEN, POSSIBLE = "broken", "possible"

LATE_US = 15_000_000
"""Tolerance of late redeliveries by default."""

LINGERS_US = 120_000_000
"""How long a restarted server may act on duplicated state."""

FLUSH_US = 6_000_000
"""State of the time before a restart that may be lost with it."""

SLACK_US = 100_000
"""Difference of two recorders' clocks that both agree with the server's."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A violation of an invariant, definite or possible; `row` proves it."""

    check: str
    invariant: str
    verdict: str
    row: Row
    first: Row | None = None
    """The earlier event of the proof, if an unavailable server may have lost it since."""
    acked: int | None = None
    """When the ack that it contradicts was answered."""
    due: int | None = None
    """When a late message could have been delivered."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a group."""

    ordered: bool | None = None
    max_attempts: int | None = None
    steps_us: Sequence[int] = ()
    locks_queue: bool = False
    from_broker: bool = False
    broadcast: bool = False
    """Whether each member reads all queues."""
    early_us: int = 100_000
    late_us: int = 15_000_000


@dataclass(slots=True)
class Observation:
    """The events of one observer in one run and case."""

    observer: str
    rows: list[Row]
    settings: Mapping[str, Settings]
    marks: Sequence[Row]
    """Resets, crashes and restarts as recorded by any observer."""
    halves: Mapping[tuple[str, str], int]
    """Half messages recorded by the broker, by topic and transaction."""

    def of(self, *kinds: str) -> list[Row]:
        """Return the rows of these kinds."""
        return [row for row in self.rows if row["kind"] in kinds]

    @property
    def is_broker(self) -> bool:
        """Whether the broker recorded it."""
        return self.observer == "broker"

    @property
    def ended(self) -> int:
        """The time of the last event."""
        return max(int(row["t_wall_us"]) for row in self.rows)

    def filters_of(self, topic: str, group: str) -> set[str]:
        """Return the filters with which a group polled a topic; a poll of an old recording has none, unless it
        delivered something."""
        mine = [row for row in self.rows if (row.get("topic"), row.get("group")) == (topic, group)]
        polls = {row.get("filter") for row in mine if row["kind"] == "receive"}
        delivered = {row.get("filter") or "?" for row in mine if row["kind"] == "deliver"}
        return {each for each in polls | delivered if each is not None}

    def firsts(self) -> list[Row]:
        """Return first attempts with an offset; not those of a message that the group suspended before, whose offset
        may be one of the retry topic."""
        suspended: dict[tuple[str, str], int] = {}
        for row in self.of("change"):
            if row.get("reason") == "suspend":
                key = row["group"], row["message_id"]
                suspended[key] = min(begin(row), suspended.get(key, begin(row)))
        return [
            row
            for row in self.of("deliver")
            if row["attempt"] == 1
            and row.get("offset") is not None
            and row["t_wall_us"] < suspended.get((row["group"], row["message_id"]), FOREVER)
        ]

    def settings_of(self, group: str) -> Settings:
        """Return the settings of a group."""
        return self.settings.get(group, Settings())


@dataclass(slots=True)
class Delivery:
    """One delivery, and the operations on it until the message was redelivered."""

    row: Row
    then: Row | None = None
    """The next delivery of the message to the group."""
    done: list[Row] = field(default_factory=list)

    @property
    def length(self) -> int | None:
        """The length of its lease in microseconds."""
        return None if self.row.get("invisible_ms") is None else self.row["invisible_ms"] * 1000


@dataclass(slots=True)
class MessageHistory:
    """All deliveries of one message to one group."""

    observation: Observation
    deliveries: list[Delivery]
    others: list[Row]
    """Operations on it in order; failed ones are left out, those without a response count as `info`."""
    copies: bool
    """Whether it was stored at two offsets."""

    @property
    def settings(self) -> Settings:
        """The settings of its group."""
        return self.observation.settings_of(self.deliveries[0].row["group"])


def by_queue(row: Row) -> bool:
    """Return whether a delivery is one to a consumer of whole queues, which has no leases."""
    return row.get("role") == "pull" or (row.get("role") == "push" and row.get("delivery") is None)


def is_read(row: Row) -> bool:
    """Return whether a delivery was read from the queue that it names; push consumers get retries from others."""
    return (
        row["kind"] == "deliver"
        and row.get("offset") is not None
        and by_queue(row)
        and (row["role"] == "pull" or row["attempt"] == 1)
    )


def grain(row: Row) -> str:
    """Return the grain of an assignment: `queue`, `message` or `broadcast`."""
    by_role = "queue" if row.get("role") == "pull" else "message"
    return str(dict(row.get("cfg") or {}).get("grain", by_role))


def begin(row: Row) -> int:
    """Return the earliest time at which an operation or delivery can have happened."""
    return int(row["t_wall_us"] if row.get("invoked_us") is None else row["invoked_us"])


def place_in_time(row: Row) -> tuple[int, int]:
    """Return the sort key: deliveries by arrival, operations by call, sequence numbers at one instant."""
    if row["kind"] == "deliver":
        return row["t_wall_us"], row["seq"]
    called = row.get("invoked_seq")
    return begin(row), row["seq"] if called is None else called


def observations(rows: Iterable[Row]) -> Iterator[Observation]:
    """Yield the observations of a recording: by run, case and observer."""
    rows = sorted({(row["recorder"], row["seq"]): row for row in rows}.values(), key=_written)
    by_run: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        by_run[row["run_id"], row["case_id"]].append(row)
    for together in by_run.values():
        settings = _settings(together)
        marks = [{**row, "until": _until(row, together)} for row in together if _exemption(row)]
        halves = Counter(
            (row["topic"], row["tx_id"])
            for row in together
            if (row["observer"], row["kind"], row["phase"]) == ("broker", "send", "ok")
        )
        for observer in sorted({row["observer"] for row in together}):
            mine = [row for row in together if row["observer"] == observer]
            yield Observation(observer, mine, settings, marks, halves)


def message_histories(observation: Observation) -> Iterator[MessageHistory]:
    """Yield the deliveries of each message to each group of message-granular consumers."""
    kinds = ("deliver", "ack", "change", "forward", "dlq.deliver")
    mine: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in observation.of(*kinds):
        if not (row.get("group") and row.get("message_id")) or row.get("role") == "pull":
            continue
        if not observation.settings_of(row["group"]).broadcast:
            mine[_identity(observation, row)].append(row)
    for rows in mine.values():
        deliveries = sorted((row for row in rows if row["kind"] == "deliver"), key=place_in_time)
        if not deliveries:
            continue
        answered = {row["op_id"] for row in rows if row.get("phase") in ("ok", "fail", "info")}
        others = [_answered(row, answered) for row in rows if row["kind"] != "deliver"]
        settled = sorted((row for row in others if row is not None), key=place_in_time)
        pairs = [Delivery(row, then) for row, then in zip(deliveries, [*deliveries[1:], None], strict=True)]
        for row in settled:
            before = [each for each in pairs if place_in_time(each.row) < place_in_time(row)]
            if before:
                before[-1].done.append(row)
        firsts = {(row["broker"], row["queue"], row["offset"]) for row in deliveries if row["attempt"] == 1}
        yield MessageHistory(observation, pairs, settled, len(firsts) > 1)


def is_about(operation: Row, given: Delivery) -> bool:
    """Return whether an operation used the handle of this delivery, or an unknown one."""
    return operation.get("delivery") in (None, given.row.get("delivery")) or given.row.get("delivery") is None


def is_exempt(
    observation: Observation,
    first: Row,
    then: Row,
    *,
    acked: int | None = None,
    since: float = FOREVER,
    only: str | None = None,
) -> bool:
    """Return whether a reset, the end of a client, or a restart lies between two deliveries (E2, E3, E4).

    `only` restricts it to one of these. A restart counts for messages that existed before it, `since` some time."""
    for mark in observation.marks:
        key, who = _exemption(mark) or ("", None)
        if only not in (None, key):
            continue
        after = (mark["t_wall_us"], mark["seq"] if mark["recorder"] == first["recorder"] else -1)
        before = (mark["t_wall_us"], mark["seq"] if mark["recorder"] == then["recorder"] else FOREVER)
        concerned = who is None or who in (first.get("group"), first.get("client_id"))
        forgotten = key != "restart" or acked is None or acked > mark["t_wall_us"] - FLUSH_US
        began = after > (first["t_wall_us"], first["seq"]) or (
            key == "restart" and mark["until"] > max(since, then["t_wall_us"] - LINGERS_US)
        )
        span = began and before < (then["t_wall_us"], then["seq"])
        if span and concerned and forgotten:
            return True
    return False


def born(history: MessageHistory) -> int:
    """Return the earliest known time at which the message existed."""
    return min(_there(delivery.row) for delivery in history.deliveries)


def _there(row: Row) -> int:
    # Redelivered copies are stored again.
    times = [int(row[name]) for name in ("store_us", "born_us") if row.get(name) is not None]
    return min(*times, int(row["t_wall_us"])) if times else begin(row)


def is_doubtful(observation: Observation, found: Violation) -> bool:
    """Return whether the recorder of the first event observed the server as unavailable shortly before the second one,
    or, of late deliveries, around the time at which they were due."""
    first = found.first
    if first is None:
        return False
    at = int(found.row["t_wall_us"])
    least, most = (at, at) if found.due is None else (found.due, found.due + LATE_US)
    return any(
        row["recorder"] == first["recorder"]
        and least - LINGERS_US < row["t_wall_us"] < most
        and (found.acked is None or row["t_wall_us"] < found.acked + FLUSH_US)
        for row in observation.of("receive")
        if row.get("result") == "away"
    )


def _exemption(row: Row) -> tuple[str, str | None] | None:
    if row["kind"] in ("reset", "seek"):
        return "reset", row["group"]
    if row["kind"] in ("client.stop", "client.crash"):
        return "gone", row["client_id"]
    if row["kind"] == "fault" and dict(row["fault"]).get("kind") in ("restart", "crash"):
        return "restart", None
    return None


def _until(mark: Row, together: Sequence[Row]) -> int:
    """Return the end of a fault: its recorded stop, or two minutes later; other marks have no duration."""
    at = int(mark["t_wall_us"])
    if mark["kind"] != "fault" or dict(mark["fault"]).get("state") != "start":
        return at

    def what(row: Row) -> tuple[Any, ...]:
        fault = dict(row["fault"])
        return fault.get("kind"), fault.get("target")

    later = [
        row
        for row in together
        if row["kind"] == "fault" and _written(row) > _written(mark) and what(row) == what(mark)
    ]
    then = min(later, key=_written, default=None)
    is_over = then is not None and dict(then["fault"]).get("state") == "stop"
    return int(then["t_wall_us"]) if then is not None and is_over else at + LINGERS_US


def _identity(observation: Observation, row: Row) -> tuple[Any, ...]:
    """Return the key of a message; in ordered groups its offset distinguishes copies."""
    key = (row["topic"], row["group"], row.get("message_group") or row["message_id"], row["message_id"])
    if observation.settings_of(row["group"]).ordered:
        return (*key, row["broker"], row["queue"], row["offset"])
    return key


def _answered(row: Row, answered: set[str]) -> Row | None:
    if row.get("phase") == "fail":
        return None
    if row.get("phase") == "invoke":
        return None if row["op_id"] in answered else {**row, "phase": "info"}
    return row


def _settings(rows: Sequence[Row]) -> dict[str, Settings]:
    rows_by_group: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["kind"] in ("config", "assign") and row.get("group"):
            rows_by_group[row["group"]].append(row)
    return {group: _settings_of(group_rows) for group, group_rows in rows_by_group.items()}


def _settings_of(told: Sequence[Row]) -> Settings:
    latest: dict[str, str] = {}
    ordered: set[str] = set()
    assigned = [row for row in told if row["kind"] == "assign"]
    told = [row for row in told if row["kind"] == "config"]
    for row in sorted(told, key=lambda row: row["t_wall_us"]):
        cfg = dict(row["cfg"])
        latest |= cfg
        ordered |= {cfg["ordered"]} if "ordered" in cfg else set()
    return Settings(
        ordered=ordered == {"true"} if len(ordered) == 1 else None,
        max_attempts=int(latest["max_attempts"]) if "max_attempts" in latest else None,
        steps_us=[int(step) * 1000 for step in latest.get("steps_ms", "").split(",") if step],
        locks_queue=latest.get("order_grain") == "queue",
        from_broker=any(row["observer"] == "broker" for row in told),
        broadcast=any(grain(row) == "broadcast" for row in assigned),
        early_us=int(latest.get("early_ms", 100)) * 1000,
        late_us=int(latest.get("late_ms", 15_000)) * 1000,
    )


def _written(row: Row) -> tuple[int, str, int]:
    return row["t_wall_us"], row["recorder"], row["seq"]
