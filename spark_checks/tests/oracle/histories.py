"""What the plain readings of the promises share: events as dicts, deliveries with what became of them, excuses.

Everything here is slow on purpose: lists, loops, one history at a time.
"""

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
"""So long after that a message may come, if nobody says otherwise."""

LINGERS_US = 120_000_000
"""So long a server that was away may go on with what it knew twice."""

FLUSH_US = 6_000_000
"""What a restarted server may have forgotten of the time before."""

SLACK_US = 100_000
"""Clocks of two recorders that agree with the server's may be so far apart."""


@dataclass(frozen=True, slots=True)
class Found:
    """A promise that was broken, or may have been; `row` proves it."""

    check: str
    invariant: str
    verdict: str
    row: Row
    first: Row | None = None
    """The earlier event that proves it, where a server that was away in between may have forgotten it."""
    acked: int | None = None
    """When an ack that it breaks was answered."""
    due: int | None = None
    """When what is late could have come."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Of a group."""

    ordered: bool | None = None
    max_attempts: int | None = None
    steps_us: Sequence[int] = ()
    locks_queue: bool = False
    told_by_broker: bool = False
    broadcast: bool = False
    """Each member reads everything for itself."""
    early_us: int = 100_000
    late_us: int = 15_000_000


@dataclass(slots=True)
class Account:
    """What one observer told of one run and case."""

    observer: str
    rows: list[Row]
    settings: Mapping[str, Settings]
    marks: Sequence[Row]
    """Resets, crashes and restarts that any observer told of."""
    halves: Mapping[tuple[str, str], int]
    """How many half messages the broker told of, by topic and transaction; 0 where it told of none."""

    def of(self, *kinds: str) -> list[Row]:
        """Rows of these kinds."""
        return [row for row in self.rows if row["kind"] in kinds]

    @property
    def is_broker(self) -> bool:
        """Whether it is the broker's own."""
        return self.observer == "broker"

    @property
    def ended(self) -> int:
        """The last instant."""
        return max(int(row["t_wall_us"]) for row in self.rows)

    def settings_of(self, group: str) -> Settings:
        """What was told of a group."""
        return self.settings.get(group, Settings())


@dataclass(slots=True)
class Given:
    """One delivery, and what was done about it before the message came again."""

    row: Row
    then: Row | None = None
    """The next delivery of the message to the group."""
    done: list[Row] = field(default_factory=list)

    @property
    def hold(self) -> int | None:
        """Microseconds for which it was handed out."""
        return None if self.row.get("invisible_ms") is None else self.row["invisible_ms"] * 1000


@dataclass(slots=True)
class Way:
    """All deliveries of one message to one group."""

    account: Account
    given: list[Given]
    others: list[Row]
    """Operations on it, in their order; those that failed are left out, those without an answer count as `info`."""
    copies: bool
    """It was stored at two places."""

    @property
    def settings(self) -> Settings:
        """Those of its group."""
        return self.account.settings_of(self.given[0].row["group"])


def by_queue(row: Row) -> bool:
    """Whether a delivery is one by a consumer of whole queues, which holds no leases."""
    return row.get("role") == "pull" or (row.get("role") == "push" and row.get("delivery") is None)


def is_read(row: Row) -> bool:
    """Whether a delivery came from the queue that it names; retries come to push consumers from others."""
    return (
        row["kind"] == "deliver"
        and row.get("offset") is not None
        and by_queue(row)
        and (row["role"] == "pull" or row["attempt"] == 1)
    )


def grain(row: Row) -> str:
    """What an assignment gives: a `queue`, or `message`s of it, or all of a `broadcast`."""
    by_role = "queue" if row.get("role") == "pull" else "message"
    return str(dict(row.get("cfg") or {}).get("grain", by_role))


def begin(row: Row) -> int:
    """The earliest instant at which an operation or delivery can have happened."""
    return int(row["t_wall_us"] if row.get("invoked_us") is None else row["invoked_us"])


def place_in_time(row: Row) -> tuple[int, int]:
    """Deliveries by when they were seen, operations by when they were called; numbers decide at one instant."""
    if row["kind"] == "deliver":
        return row["t_wall_us"], row["seq"]
    called = row.get("invoked_seq")
    return begin(row), row["seq"] if called is None else called


def accounts(rows: Iterable[Row]) -> Iterator[Account]:
    """Split a recording by run, case and observer."""
    rows = sorted({(row["recorder"], row["seq"]): row for row in rows}.values(), key=_written)
    by_run: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        by_run[row["run_id"], row["case_id"]].append(row)
    for together in by_run.values():
        settings = _settings(together)
        marks = [{**row, "until": _until(row, together)} for row in together if _excuse(row)]
        halves = Counter(
            (row["topic"], row["tx_id"])
            for row in together
            if (row["observer"], row["kind"], row["phase"]) == ("broker", "send", "ok")
        )
        for observer in sorted({row["observer"] for row in together}):
            mine = [row for row in together if row["observer"] == observer]
            yield Account(observer, mine, settings, marks, halves)


def ways(account: Account) -> Iterator[Way]:
    """The deliveries of each message to each group; owners of whole queues have none in this sense."""
    kinds = ("deliver", "ack", "change", "forward", "dlq.deliver")
    mine: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in account.of(*kinds):
        if not (row.get("group") and row.get("message_id")) or row.get("role") == "pull":
            continue
        if not account.settings_of(row["group"]).broadcast:
            mine[_identity(account, row)].append(row)
    for rows in mine.values():
        deliveries = sorted((row for row in rows if row["kind"] == "deliver"), key=place_in_time)
        if not deliveries:
            continue
        answered = {row["op_id"] for row in rows if row.get("phase") in ("ok", "fail", "info")}
        others = [_answered(row, answered) for row in rows if row["kind"] != "deliver"]
        settled = sorted((row for row in others if row is not None), key=place_in_time)
        given = [Given(row, then) for row, then in zip(deliveries, [*deliveries[1:], None], strict=True)]
        for row in settled:
            before = [each for each in given if place_in_time(each.row) < place_in_time(row)]
            if before:
                before[-1].done.append(row)
        firsts = {(row["broker"], row["queue"], row["offset"]) for row in deliveries if row["attempt"] == 1}
        yield Way(account, given, settled, len(firsts) > 1)


def is_about(operation: Row, given: Given) -> bool:
    """Whether an operation used the handle of this delivery, as far as anybody told."""
    return operation.get("delivery") in (None, given.row.get("delivery")) or given.row.get("delivery") is None


def excused(
    account: Account,
    first: Row,
    then: Row,
    *,
    acked: int | None = None,
    since: float = FOREVER,
    only: str | None = None,
) -> bool:
    """Whether a reset, a client that left, or a restart lies between two deliveries (E2, E3, E4), or `only` one of
    these. A restart counts for what was there before it, `since` some time."""
    for mark in account.marks:
        key, who = _excuse(mark) or ("", None)
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


def born(way: Way) -> int:
    """Since when the message was there, as far as anybody tells."""
    return min(_there(given.row) for given in way.given)


def _there(row: Row) -> int:
    # Copies that come again are stored anew.
    made = [int(row[name]) for name in ("store_us", "born_us") if row.get(name) is not None]
    return min(*made, int(row["t_wall_us"])) if made else begin(row)


def is_doubtful(account: Account, found: Found) -> bool:
    """Whether the server was away, as far as the recorder of the first event saw, not long before the second one; of
    what is late, around the time for which it was `due`."""
    first = found.first
    if first is None:
        return False
    seen = int(found.row["t_wall_us"])
    least, most = (seen, seen) if found.due is None else (found.due, found.due + LATE_US)
    return any(
        row["recorder"] == first["recorder"]
        and least - LINGERS_US < row["t_wall_us"] < most
        and (found.acked is None or row["t_wall_us"] < found.acked + FLUSH_US)
        for row in account.of("receive")
        if row.get("result") == "away"
    )


def _excuse(row: Row) -> tuple[str, str | None] | None:
    if row["kind"] in ("reset", "seek"):
        return "reset", row["group"]
    if row["kind"] in ("client.stop", "client.crash"):
        return "gone", row["client_id"]
    if row["kind"] == "fault" and dict(row["fault"]).get("kind") in ("restart", "crash"):
        return "restart", None
    return None


def _until(mark: Row, together: Sequence[Row]) -> int:
    """A fault that was started lasts until somebody says that it has stopped, or for two minutes; all else is over at
    once."""
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


def _identity(account: Account, row: Row) -> tuple[Any, ...]:
    """Ordered groups hand a message out from its own place; so that place tells copies of it apart."""
    key = (row["topic"], row["group"], row.get("message_group") or row["message_id"], row["message_id"])
    if account.settings_of(row["group"]).ordered:
        return (*key, row["broker"], row["queue"], row["offset"])
    return key


def _answered(row: Row, answered: set[str]) -> Row | None:
    if row.get("phase") == "fail":
        return None
    if row.get("phase") == "invoke":
        return None if row["op_id"] in answered else {**row, "phase": "info"}
    return row


def _settings(rows: Sequence[Row]) -> dict[str, Settings]:
    said: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["kind"] in ("config", "assign") and row.get("group"):
            said[row["group"]].append(row)
    return {group: _settings_of(told) for group, told in said.items()}


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
        told_by_broker=any(row["observer"] == "broker" for row in told),
        broadcast=any(grain(row) == "broadcast" for row in assigned),
        early_us=int(latest.get("early_ms", 100)) * 1000,
        late_us=int(latest.get("late_ms", 15_000)) * 1000,
    )


def _written(row: Row) -> tuple[int, str, int]:
    return row["t_wall_us"], row["recorder"], row["seq"]
