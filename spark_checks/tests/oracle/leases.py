"""INV-EXCL, INV-ACKED, INV-EARLY and INV-LATE in plain words: a message stays away while it is held, stays away for
good after an ack, and comes again when it was asked to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from spark_checks.tests.oracle.histories import (
    BROKEN,
    POSSIBLE,
    Account,
    Found,
    Given,
    Row,
    Way,
    begin,
    born,
    excused,
    is_about,
)

PARKED_US = 30_000_000
"""No server lets a poll wait for as long as that."""


@dataclass(frozen=True, slots=True)
class Hold:
    """When a hold ends, at the earliest and at the latest, as of the next delivery; None where nobody told."""

    least: int | None
    most: int | None
    change: Row | None
    """The last change that surely took effect."""
    unsure: bool
    """A change may have taken effect, or not."""
    maybe: bool
    """One of those was never answered."""


def hold(given: Given) -> Hold:
    """What became of the hold by all changes of it that are known."""
    changes = [row for row in given.done if row["kind"] == "change" and is_about(row, given)]
    sure = [row for row in changes if row["phase"] == "ok"]
    maybe = [row for row in changes if row["phase"] == "info"]
    length = given.hold
    ends = [] if length is None else [(_given(given.row) + length, given.row["t_wall_us"] + length)]
    change, crossing = None, False
    if sure:
        change = sure[-1]
        crossing = given.then is not None and change["t_wall_us"] > given.then["t_wall_us"]
        moved = _end(change)
        # A change that was answered after the next delivery may have come to late to count.
        ends = [*ends, moved] if crossing else [moved]
    ends += [_end(row) for row in maybe]
    if length is None and not sure:
        return Hold(None, None, None, bool(maybe), bool(maybe))
    return Hold(
        min(least for least, _ in ends),
        max(most for _, most in ends),
        change,
        bool(maybe) or crossing,
        bool(maybe),
    )


def _given(row: Row) -> int:
    """The earliest instant of a delivery: nothing is handed out before it was stored."""
    return min(max(begin(row), row.get("store_us") or 0), int(row["t_wall_us"]))


def _end(change: Row) -> tuple[int, int]:
    length = change["invisible_ms"] * 1000
    return begin(change) + length, change["t_wall_us"] + length


def acked(given: Given) -> int | None:
    """When an ack of this delivery was answered OK first."""
    times = [
        row["t_wall_us"]
        for row in given.done
        if row["kind"] == "ack" and row["phase"] == "ok" and is_about(row, given)
    ]
    return min(times, default=None)


def was_asked_for(way: Way, given: Given, held: Hold) -> bool:
    """Whether the end of the hold is the time for which a retry was asked."""
    change = held.change
    if change is None or held.maybe:
        return False
    if change.get("reason") in ("retry", "extend"):
        return bool(change["reason"] == "retry")
    steps, attempt, length = way.settings.steps_us, given.row["attempt"], given.hold
    is_step = (
        attempt >= 1 and bool(steps) and change["invisible_ms"] * 1000 == steps[min(attempt, len(steps)) - 1]
    )
    climbs = is_step and change.get("reason") is None and change.get("role") != "simple"
    return climbs or (length is not None and _end(change)[0] < _given(given.row) + length)


def redeliveries(way: Way) -> Iterator[Found]:
    """Every delivery but the first has a reason."""
    settings = way.settings
    knows_less = settings.told_by_broker and not way.account.is_broker
    for given in way.given:
        then = given.then
        if then is None or _is_repeated(given.row, then):
            continue
        held, ack = hold(given), acked(given)
        in_time = ack is not None and (held.least is None or ack <= held.least)
        early = held.least is not None and then["t_wall_us"] < held.least - settings.early_us
        perhaps = (
            held.most is not None and then["t_wall_us"] < held.most - settings.early_us and not knows_less
        )
        if not (in_time or early or perhaps) or way.copies:
            continue
        other_way = then.get("invisible_ms") is not None and (
            begin(then) + then["invisible_ms"] * 1000 <= given.row["t_wall_us"] + settings.early_us
        )
        definite = (in_time or early) and not other_way
        if (held.unsure and not definite) or excused(
            way.account, given.row, then, acked=ack, since=born(way)
        ):
            continue
        if _is_behind_a_gap(way, given, then):
            continue
        asked = was_asked_for(way, given, held) and not in_time
        check = "retry timing" if asked else "double delivery"
        name = "INV-EARLY" if asked else "INV-EXCL"
        if in_time and ack is not None and ack < then["t_wall_us"]:
            name = "INV-ACKED"
        acked_at = ack if name == "INV-ACKED" else None
        yield Found(check, name, BROKEN if definite else POSSIBLE, then, given.row, acked_at)


def _is_repeated(first: Row, then: Row) -> bool:
    """E6: one request was answered twice."""
    return bool(first.get("receive_attempt")) and first.get("receive_attempt") == then.get("receive_attempt")


def _is_behind_a_gap(way: Way, given: Given, then: Row) -> bool:
    """E5: the group locks whole queues, and an earlier message of the same answer was not acked by then."""
    if not way.settings.locks_queue or given.row.get("batch") is None:
        return False
    return any(
        other.row["batch"] == given.row["batch"]
        and other.row["offset"] < given.row["offset"]
        and ((ack := acked(other)) is None or ack > then["t_wall_us"])
        for beside in _ways_of(way.account)
        for other in beside.given
        if other.row["recorder"] == given.row["recorder"]
    )


def _ways_of(account: Account) -> list[Way]:
    from spark_checks.tests.oracle.histories import ways

    return list(ways(account))


def lateness(way: Way) -> Iterator[Found]:
    """Nobody polls from the end of a hold to the bound, and goes without the message."""
    account, settings = way.account, way.settings
    if settings.ordered or settings.max_attempts is None or way.copies:
        return
    polls = [
        row for row in account.of("receive") if row["phase"] == "ok" and row.get("invoked_us") is not None
    ]
    done = any(row["kind"] != "change" for row in way.others if begin(row) >= way.given[0].row["t_wall_us"])
    for given in way.given:
        held, row, then = hold(given), given.row, given.then
        if held.most is None or held.unsure or acked(given) is not None:
            continue
        bound = held.most + settings.late_us
        if then is None and (done or (row["attempt"] is None or row["attempt"] >= settings.max_attempts)):
            continue
        if (account.ended if then is None else then["t_wall_us"]) <= bound:
            continue
        if then is not None and then["t_wall_us"] - PARKED_US < begin(then) <= held.most:
            continue
        if any(
            (poll["topic"], poll["group"]) == (row["topic"], row["group"])
            and poll.get("queue") in (None, row["queue"])
            and poll["invoked_us"] <= held.most
            and poll["t_wall_us"] >= bound
            for poll in polls
        ):
            comes = {**row, "t_wall_us": account.ended, "recorder": None} if then is None else then
            if not excused(account, row, comes, since=born(way), only="restart"):
                yield Found(
                    "retry timing", "INV-LATE", BROKEN, row if then is None else then, row, due=held.most
                )
