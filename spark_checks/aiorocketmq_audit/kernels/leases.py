"""The screen over numbers: of each delivery what `screen` says, summed up as `figures.cells` does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aiorocketmq_audit.deliveries import (
    ACK,
    CHANGE,
    CLOCK_SLACK_US,
    DEAD,
    DELIVER,
    EXTEND,
    FAILED,
    FORWARD,
    INVOKED,
    KINDS,
    NO_LADDER,
    OK,
    PHASES,
    RETRY,
    TAKEN_BACK,
)
from aiorocketmq_audit.figures import BUCKETS_S, MOST_ATTEMPTS
from aiorocketmq_audit.filters import unwanted
from aiorocketmq_audit.kernels.blocks import Layout, Rows, Runs, begins_of, greatest_so_far
from aiorocketmq_audit.kernels.events import NONE, Events, Mask, Numbers
from aiorocketmq_audit.kernels.question import ACCOUNT, FOREVER, Question, Settings, Survey, chosen
from aiorocketmq_audit.kernels.texts import hash_of, laid_over, mixed, mixed_as_spark_does
from aiorocketmq_audit.screen import NEVER

COLUMNS = (
    *(*ACCOUNT, "topic", "group", "broker", "queue", "offset", "message_id", "message_group", "role"),
    *("kind", "phase", "reason", "recorder", "seq", "t_wall_us", "invoked_us", "invoked_seq", "store_us"),
    *("invisible_ms", "delivery", "due_us", "batch", "receive_attempt", "attempt", "filter", "tag"),
)

GIVEN: Layout = {
    **dict.fromkeys(("key", "closeup", "about", "lane", "place"), "u8"),
    **dict.fromkeys(("offset", "lo", "hi", "seq", "hold", "due", "attempt"), "i8"),
    **dict.fromkeys(("recorder", "delivery", "answer", "again", "who"), "u8"),
    "settings": "i2",
    "traits": "u1",
}
"""What is exchanged of deliveries."""

SETTLED: Layout = {
    **dict.fromkeys(("key", "closeup"), "u8"),
    **dict.fromkeys(("lo", "hi", "seq", "hold"), "i8"),
    "delivery": "u8",
    **dict.fromkeys(("kind", "phase", "reason"), "u1"),
}
"""What is exchanged of their ends, and of changes."""

_BY_BROKER, _GROUPED, _UNWANTED, _BY_TAG, _IN_CHUNK = (1 << bit for bit in range(5))

_REASONS = {"retry": RETRY, "extend": EXTEND, "undelivered": TAKEN_BACK}

CAUSES = (
    *(None, "answer repeated", "sent twice", "none", "retry asked for", "change of unknown effect"),
    *("hold not recorded", "lease ended"),
)
_FIRST, _REPEATED, _, _WRONG, _ASKED, _UNSURE, _NO_HOLD, _ENDED = range(len(CAUSES))


@dataclass(frozen=True, slots=True)
class Frame:
    """What holds for the whole recording."""

    settings: Settings
    clocks_agree: bool
    ended_us: int
    has_open_calls: bool
    has_drains: bool
    chunk_bits: int


def question(frame: Frame) -> Question:
    """What `closeup` asks of all deliveries; answered by rows of SCHEMA."""
    return Question(COLUMNS, (GIVEN, SETTLED), partial(_rows, frame), partial(_answer, frame))


def _rows(frame: Frame, events: Events, _: Survey) -> tuple[Rows, Rows]:
    """Deliveries, and what came of them."""
    events = events.some(
        events.one_of("kind", *KINDS)
        & events.known("group")
        & events.known("message_id")
        & ~events.one_of("role", "pull")
    )
    given = events.one_of("kind", "deliver")
    settled = ~given
    if not frame.has_open_calls:
        settled &= events.one_of("kind", "dlq.deliver") | (
            events.known("phase") & ~events.one_of("phase", "invoke")
        )
    group = frame.settings.of(events)
    ordered = np.append(frame.settings.ordered, NONE)[group] == 1
    about, message_group = events.text("message_id"), events.text("message_group")
    offset, queue, broker = events.number("offset"), events.number("queue"), events.text("broker")
    whose = laid_over(*(events.text(name) for name in (*ACCOUNT, "topic", "group")))
    lane = mixed_as_spark_does(whose, np.where(message_group == 0, about, message_group))
    message = about.copy()
    copies = np.flatnonzero(ordered)
    spot = laid_over(broker[copies], queue[copies], offset[copies])
    message[copies] = mixed_as_spark_does(about[copies], spot)
    closeup, place = mixed_as_spark_does(lane, message), mixed(broker, queue)
    in_chunk = ordered & (message_group != 0) & (offset != NONE)
    key, chunked = about.copy(), np.flatnonzero(in_chunk)
    key[chunked] = mixed(lane[chunked], place[chunked], offset[chunked] >> frame.chunk_bits)
    at = events.number("t_wall_us")
    called = np.where(events.told("invoked_us"), events.number("invoked_us"), at)
    stored = events.number("store_us")
    stored = np.where(stored == NONE, called, stored - CLOCK_SLACK_US)
    begun = np.minimum(np.maximum(called, stored), at) if frame.clocks_agree else called
    seq = events.number("seq")
    common = {
        "key": key,
        "closeup": closeup,
        "hi": at,
        "hold": _times(events.number("invisible_ms"), 1000),
        "delivery": events.text("delivery"),
    }
    batch, again = events.text("batch"), events.text("receive_attempt")
    return chosen(
        given,
        **common,
        about=about,
        lane=lane,
        place=place,
        offset=offset,
        lo=begun,
        seq=seq,
        due=events.number("due_us"),
        attempt=events.number("attempt"),
        recorder=events.text("recorder"),
        answer=np.where(batch == 0, np.uint64(0), mixed(events.text("recorder"), batch)),
        again=np.where(again == np.uint64(hash_of("")), np.uint64(0), again),
        who=events.text("group"),
        settings=group.astype(np.int16),
        traits=events.one_of("observer", "broker") * np.uint8(_BY_BROKER)
        + (message_group != 0) * np.uint8(_GROUPED)
        + in_chunk * np.uint8(_IN_CHUNK)
        + _wishes(events),
    ), chosen(
        settled,
        **common,
        lo=called,
        seq=np.where(events.told("invoked_seq"), events.number("invoked_seq"), seq),
        kind=events.codes("kind", KINDS),
        phase=events.codes("phase", PHASES),
        reason=np.where(
            events.known("reason"),
            events.codes("reason", _REASONS),
            events.one_of("role", "simple") * np.uint8(NO_LADDER),
        ),
    )


def _wishes(events: Events) -> NDArray[np.uint8]:
    filters, tags = events.vocabulary("filter"), events.vocabulary("tag")
    wanted, tag = events.text("filter"), events.text("tag")
    by_tags = {key: text for key, text in filters.items() if text is not None and text.startswith("TAG:")}
    traits = np.isin(wanted, np.array([*by_tags], np.uint64)) * np.uint8(_BY_TAG)
    for key, text in by_tags.items():
        refused = [other for other, name in tags.items() if unwanted(text, name)]
        if refused:
            foreign = (wanted == np.uint64(key)) & np.isin(tag, np.array(refused, np.uint64))
            traits += foreign * np.uint8(_UNWANTED)
    return traits


def _times(values: Numbers, by: int) -> Numbers:
    return np.where(values == NONE, NONE, values * by)


def _plus(one: Numbers, other: Numbers) -> Numbers:
    return np.where((one == NONE) | (other == NONE), NONE, one + other)


def _least(one: Numbers, other: Numbers) -> Numbers:
    """The lesser one; what is NONE does not count."""
    return np.where(one == NONE, other, np.where(other == NONE, one, np.minimum(one, other)))


def _is_below(one: Numbers, other: Numbers) -> Mask:
    """Both are told, and one is less than the other; NONE is below everything."""
    return np.asarray((one < other) & (one != NONE))


class _Histories:
    """The rows of messages, each in the order of time, with a view on the deliveries among them."""

    def __init__(self, given: Rows, settled: Rows, *, has_open_calls: bool) -> None:
        kind = np.append(np.full(len(given["key"]), DELIVER, np.uint8), settled["kind"])
        at = np.append(given["hi"], settled["lo"])
        order = np.lexsort(
            (np.append(given["seq"], settled["seq"]), at, np.append(given["closeup"], settled["closeup"]))
        )
        self._settled = settled
        self._given = given
        self.kind, self.order = kind[order], order
        if has_open_calls:
            self._leave_out_answered_calls()
        closeup = self.rows("closeup")
        self.at = at[self.order]
        self.begins = np.flatnonzero(begins_of(closeup))
        self.message = np.repeat(np.arange(len(self.begins)), np.diff(np.append(self.begins, len(closeup))))
        self.deliveries = np.flatnonzero(self.kind == DELIVER)
        self.of = self.message[self.deliveries]

    def rows(self, name: str, missing: int = 0) -> NDArray[Any]:
        """A column of all rows; `missing` where only deliveries have it, or only the others."""
        parts = [
            rows[name] if name in rows else np.full(len(rows["key"]), missing, kind)
            for rows, kind in (
                (self._given, self._settled[name].dtype if name in self._settled else None),
                (self._settled, self._given[name].dtype if name in self._given else None),
            )
        ]
        return np.concatenate(parts)[self.order]

    def given(self, name: str) -> NDArray[Any]:
        """A column of the deliveries."""
        found: NDArray[Any] = self._given[name][self.order[self.deliveries]]
        return found

    def after(self, steps: int, rows: NDArray[Any], missing: int) -> NDArray[Any]:
        """Of each delivery, a column's value so many rows later, if that is of the same message."""
        places = self.deliveries + steps
        inside = np.minimum(places, len(self.message) - 1)
        return np.where(
            (places < len(self.message)) & (self.message[inside] == self.of), rows[inside], missing
        )

    def _leave_out_answered_calls(self) -> None:
        """Those whose completion stands beside them: it bears the call's time and number."""
        closeup, seq, phase = self.rows("closeup"), self.rows("seq"), self.rows("phase")
        pair = (closeup[1:] == closeup[:-1]) & (seq[1:] == seq[:-1]) & (self.kind[1:] == self.kind[:-1])
        answer = (phase != INVOKED) & (phase != 0)
        beside = np.zeros(len(phase), np.bool_)
        beside[1:] |= pair & answer[:-1]
        beside[:-1] |= pair & answer[1:]
        kept = ~((phase == INVOKED) & beside)
        self.order, self.kind = self.order[kept], self.kind[kept]


def _answer(frame: Frame, given: Rows, settled: Rows) -> pa.RecordBatch:
    found = _judged(_Histories(given, settled, has_open_calls=frame.has_open_calls), frame)
    return _cells(found | _in_order(found))


def _judged(rows: _Histories, frame: Frame) -> dict[str, NDArray[Any]]:
    """The deliveries with what `screen` and `deliveries.with_hold` say of each."""
    settings, group = frame.settings, rows.given("settings")
    ordered = np.append(settings.ordered, NONE)[group]
    told_by_broker = np.append(settings.told_by_broker, False)[group]
    most = np.append(settings.max_attempts, NONE)[group]
    early, late = (np.append(each, 0)[group] for each in (settings.early, settings.late))
    traits, attempt = rows.given("traits"), rows.given("attempt")
    by_broker = (traits & _BY_BROKER) > 0
    lo, hi, hold = rows.given("lo"), rows.given("hi"), rows.given("hold")
    # What came next, and after that.
    all_lo, all_hi, all_hold, phase = (rows.rows(name) for name in ("lo", "hi", "hold", "phase"))
    a_kind, b_kind = rows.after(1, rows.kind, 0), rows.after(2, rows.kind, 0)
    a_phase, a_lo, a_hi = rows.after(1, phase, 0), rows.after(1, all_lo, NONE), rows.after(1, all_hi, NONE)
    own_delivery, a_delivery = rows.given("delivery"), rows.after(1, rows.rows("delivery"), 0)
    own = (own_delivery == 0) | (a_delivery == 0) | (own_delivery == a_delivery)
    settles = np.isin(a_kind, (ACK, FORWARD, CHANGE)) & own & (a_phase == OK) | (a_kind == DEAD)
    simple = (a_kind == 0) | (a_kind == DELIVER) | (settles & ((b_kind == 0) | (b_kind == DELIVER)))
    head = rows.kind[rows.begins][rows.of] if len(rows.begins) else rows.of
    odd_row = ~simple | (head != DELIVER) | _has_copies(rows)
    second = settles & (b_kind == DELIVER)

    def following(name: str, missing: int) -> NDArray[Any]:
        column = rows.rows(name, missing)
        later = np.where(second, rows.after(2, column, missing), missing)
        return np.where(a_kind == DELIVER, rows.after(1, column, missing), later)

    n_lo, n_hi, n_hold, n_attempt = (following(name, NONE) for name in ("lo", "hi", "hold", "attempt"))
    n_again = following("again", 0)
    # The end of the hold: `deliveries.with_hold`.
    changed = settles & (a_kind == CHANGE)
    change_hold = np.where(changed, rows.after(1, all_hold, NONE), NONE)
    base_lo, base_hi = _plus(lo, hold), _plus(hi, hold)
    moved_lo, moved_hi = _plus(a_lo, change_hold), _plus(a_hi, change_hold)
    crossing = changed & (n_hi != NONE) & (a_hi > n_hi)
    last_lo = np.where(crossing, _least(base_lo, moved_lo), moved_lo)
    last_hi = np.where(crossing, np.maximum(base_hi, moved_hi), moved_hi)
    is_held = (hold != NONE) | changed
    until_lo = np.where(is_held, np.where(changed, last_lo, base_lo), NONE)
    until_hi = np.where(is_held, np.where(changed, last_hi, base_hi), NONE)
    reason = np.where(changed, rows.after(1, rows.rows("reason"), 0), 0)
    step = _steps(settings, group, attempt)
    retries = ((change_hold == step) & (step != NONE) & (reason != NO_LADDER)) | _is_below(moved_lo, base_lo)
    asked = changed & np.where((reason == RETRY) | (reason == EXTEND), reason == RETRY, retries)
    asked_hi, wait = np.where(asked, a_hi, NONE), np.where(asked, change_hold, NONE)
    acked_hi = np.where(settles & (a_kind == ACK), a_hi, NONE)
    dead_hi = np.where(settles & (a_kind == DEAD), a_hi, NONE)
    ended_lo = np.where(settles & (a_kind != CHANGE), a_lo, NONE)
    exhausted = (n_hi == NONE) & (attempt != NONE) & (attempt >= np.where(most == NONE, 1, most))
    end_lo = _least(ended_lo, np.where(exhausted, np.where(until_lo == NONE, lo, until_lo), NONE))
    came_again, ended_all = _came_again(rows), _ended(rows)
    done_lo = _least(ended_all, np.where(n_hi == NONE, end_lo, NONE))
    # What the checks suspect.
    attested = told_by_broker & ~by_broker
    repeated = (rows.given("again") == n_again) & (n_again != 0)
    is_again = n_hi != NONE
    acked_in_time = (acked_hi != NONE) & ((until_lo == NONE) | (acked_hi <= until_lo))
    early_lo, early_hi = (_is_below(n_hi, _plus(until, -early)) for until in (until_lo, until_hi))
    looks_early = early_lo | (early_hi & ~attested)
    doubled = is_again & (acked_in_time | (looks_early & ~asked)) & ~repeated
    bound = _plus(until_hi, late)
    is_open = ~is_again & (done_lo == NONE) & _is_below(attempt, most)
    waited = (bound != NONE) & ((n_hi > bound) | (is_open & (frame.ended_us > bound)))
    is_late = waited & (ordered != 1) & (acked_hi == NONE) & ~crossing
    mistimed = (asked & is_again & looks_early & ~acked_in_time & ~repeated) | is_late
    stays = (
        (n_attempt != NONE) & (attempt != NONE) & (n_attempt <= attempt) & ~repeated & (reason != TAKEN_BACK)
    )
    skips = (attempt != NONE) & (n_attempt > attempt + 1) & ~attested
    above = (most > 0) & (attempt > most) & (ordered == 0)
    misnumbered = stays | skips | above | ((attempt != NONE) & (attempt < 1))
    due = rows.given("due")
    hurried = _is_below(hi, _plus(due, -early))
    suspect = doubled | mistimed | misnumbered | hurried | ((traits & _UNWANTED) > 0)
    suspect |= (dead_hi != NONE) & (n_lo != NONE) & (dead_hi < n_lo)
    if frame.has_drains:
        suspect |= ~is_again & (attempt != NONE) & (most != NONE) & (attempt >= most) & by_broker
    other_way_round = (n_lo != NONE) & (n_hold != NONE) & (n_lo + n_hold <= hi + early)
    cause = np.select(
        [
            ~is_again,
            repeated,
            acked_in_time | (early_lo & ~other_way_round),
            asked,
            crossing,
            until_lo == NONE,
        ],
        [_FIRST, _REPEATED, _WRONG, _ASKED, _UNSURE, _NO_HOLD],
        _ENDED,
    ).astype(np.uint8)
    used_up = np.where(~odd_row & ~is_again, end_lo, NONE)
    known = _least(_least(came_again, ended_all), used_up)
    odd = np.bincount(rows.of, odd_row, len(rows.begins))[rows.of] > 0
    is_sought = odd | suspect
    in_chunk = (traits & _IN_CHUNK) > 0
    answer, recorder, seq = (rows.given(name) for name in ("answer", "recorder", "seq"))
    return {
        "by_broker": by_broker,
        "who": rows.given("who"),
        "cell_attempt": np.where(attempt == NONE, MOST_ATTEMPTS, np.minimum(attempt, MOST_ATTEMPTS)),
        "cause": cause,
        "bucket": _bucket(n_hi, until_hi, np.isin(cause, (_ASKED, _ENDED, _WRONG))),
        "asked": asked,
        "in_chunk": in_chunk,
        "part": rows.given("key"),
        "lane": rows.given("lane"),
        "place": rows.given("place"),
        "offset": rows.given("offset"),
        "chunk": rows.given("offset") >> frame.chunk_bits,
        "is_sought": is_sought,
        "closeup": np.where(is_sought, rows.given("closeup"), 0),
        "about": np.where(is_sought, rows.given("about"), 0),
        "odd": odd,
        "number": _number(rows),
        "ordered": ordered,
        "grouped": (traits & _GROUPED) > 0,
        "with_hold": until_lo != NONE,
        "redelivered": is_again,
        "wait": np.where(is_again, wait, NONE),
        "seen_after": np.where(asked & is_again, n_hi - asked_hi, NONE),
        "doubled": doubled,
        "mistimed": mistimed,
        "misnumbered": misnumbered,
        "numbered": attempt != NONE,
        "hurried": hurried,
        "scheduled": due != NONE,
        "unwanted": (traits & _UNWANTED) > 0,
        "by_tag": (traits & _BY_TAG) > 0,
        "dead": (dead_hi != NONE) & by_broker,
        "recorder": recorder,
        "seq": seq,
        "hi": hi,
        "closeup_of": rows.given("closeup"),
        "end": np.where((head == DELIVER) & (known != NONE), known, NEVER),
        "answer": np.where(answer == 0, mixed(recorder, seq), answer),
    }


def _steps(settings: Settings, group: NDArray[Any], attempt: Numbers) -> Numbers:
    """The group's own wait after this attempt, in microseconds; the last step repeats."""
    longest = max((len(steps) for steps in settings.steps), default=0)
    if not longest:
        return np.full(len(group), NONE, np.int64)
    ladder = np.full((len(settings.steps) + 1, longest), NONE, np.int64)
    for row, steps in enumerate(settings.steps):
        if steps:
            ladder[row] = [1000 * steps[min(index, len(steps) - 1)] for index in range(longest)]
    found: Numbers = ladder[group, np.clip(attempt, 1, longest) - 1]
    return np.where(attempt >= 1, found, NONE)


def _has_copies(rows: _Histories) -> Mask:
    """Whether first attempts of the message came from different places."""
    first = rows.given("attempt") == 1
    place = mixed(rows.given("place"), rows.given("offset"))
    least = np.full(len(rows.begins), np.iinfo(np.uint64).max, np.uint64)
    most = np.zeros(len(rows.begins), np.uint64)
    np.minimum.at(least, rows.of[first], place[first])
    np.maximum.at(most, rows.of[first], place[first])
    return np.asarray((least < most)[rows.of])


def _number(rows: _Histories) -> Numbers:
    """Which delivery of its message each one is."""
    ranks = np.arange(1, len(rows.of) + 1)
    before = np.searchsorted(rows.of, np.arange(len(rows.begins)))
    return ranks - before[rows.of]


def _came_again(rows: _Histories) -> Numbers:
    again = np.full(len(rows.of), NONE, np.int64)
    same = rows.of[1:] == rows.of[:-1]
    again[:-1][same] = rows.given("hi")[1:][same]
    return again


def _ended(rows: _Histories) -> Numbers:
    """The first end of the message that anybody told."""
    ends = np.isin(rows.kind, (ACK, FORWARD, DEAD)) & (rows.rows("phase") != FAILED)
    if not len(rows.begins):
        return np.empty(0, np.int64)
    least = np.minimum.reduceat(np.where(ends, rows.rows("lo"), FOREVER), rows.begins)
    return np.where(least == FOREVER, NONE, least)[rows.of]


def _bucket(n_hi: Numbers, until_hi: Numbers, which: Mask) -> Numbers:
    borders = [round(border * 1e6) for border in BUCKETS_S]
    known = which & (n_hi != NONE) & (until_hi != NONE)
    return np.where(known, np.searchsorted(borders, np.where(known, n_hi - until_hi, 0), "right"), NONE)


def _in_order(found: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Where, in a chunk, a delivery began before all that is in front of it was over: `screen._ordered`."""
    disorder = np.zeros(len(found["hi"]), np.bool_)
    which = np.flatnonzero(found["in_chunk"])
    columns = (found[name][which] for name in ("seq", "hi", "closeup_of", "offset", "part"))
    which = which[np.lexsort(tuple(columns))]
    part, hi, end = (found[name][which] for name in ("part", "hi", "end"))
    answer, seq = found["answer"][which], found["seq"][which]
    same = part[1:] == part[:-1]
    goes_on = same & (answer[1:] == answer[:-1]) & (hi[1:] == hi[:-1])
    begins = begins_of(part)
    opened, seen = (greatest_so_far(values, begins)[:-1] for values in (end, hi))
    overtakes = same & ((opened > hi[1:]) | (seen > hi[1:]))
    disorder[which[1:]] = np.where(goes_on, seq[:-1] > seq[1:], overtakes)
    return {"disorder": disorder}


_COUNTED = (
    "with_hold",
    "redelivered",
    "doubled",
    "mistimed",
    "misnumbered",
    "numbered",
    "hurried",
    "scheduled",
)
_COUNTED_TOO = ("unwanted", "by_tag", "dead", "disorder")

SCHEMA = pa.schema(
    [
        *(("by_broker", pa.bool_()), ("who", pa.int64()), ("cell_attempt", pa.int32())),
        *(("cause", pa.string()), ("bucket", pa.int32()), ("asked", pa.bool_())),
        *(("chunk_lane", pa.int64()), ("chunk_place", pa.int64()), ("chunk", pa.int64())),
        *(("closeup", pa.int64()), ("about", pa.int64()), ("odd", pa.bool_())),
        *((name, pa.int64()) for name in ("n", "first", "ordered_first", "unknown_order")),
        *((name, pa.int64()) for name in (*_COUNTED, *_COUNTED_TOO)),
        *((name, pa.int64()) for name in ("asked_us", "asked_most", "seen_us", "seen_least", "seen_most")),
        *((name, pa.int64()) for name in ("far_number", "far_recorder", "far_seq")),
        *((name, pa.int64()) for name in ("begin", "seen", "end", "first_answer", "last_answer")),
    ]
)
"""`figures.cells` by chunk and by what is sought, with their borders: as `closeup` has them."""


def _cells(found: Mapping[str, NDArray[Any]]) -> pa.RecordBatch:
    sought, in_chunk = found["is_sought"], found["in_chunk"]
    nobody = np.zeros(len(sought), np.int64)
    columns = {
        **{name: found[name] for name in ("by_broker", "who", "cell_attempt", "cause", "bucket", "asked")},
        "chunk_lane": np.where(in_chunk, found["lane"], 0),
        "chunk_place": np.where(in_chunk, found["place"], 0),
        "chunk": np.where(in_chunk, found["chunk"], NONE),
        **{name: found[name] for name in ("closeup", "about", "odd")},
    }
    runs = Runs(
        mixed(*(column.astype(np.int64) if column.itemsize < 8 else column for column in columns.values()))
    )
    some = runs.order[runs.begins]
    cells = {name: column[some] for name, column in columns.items()}
    first, wait, seen = found["number"] == 1, found["wait"], found["seen_after"]
    counted = {name: runs.count(found[name]) for name in (*_COUNTED, *_COUNTED_TOO)} | {
        "n": runs.count(nobody == 0),
        "first": runs.count(first),
        "ordered_first": runs.count(first & (found["ordered"] == 1) & found["grouped"]),
        "unknown_order": runs.count((found["ordered"] == NONE) & found["grouped"]),
        "asked_us": runs.sum(np.where(wait == NONE, 0, wait)),
        "seen_us": runs.sum(np.where(seen == NONE, 0, seen)),
    }
    most = {"asked_most": runs.most(wait), "seen_most": runs.most(seen)}
    least = runs.least(np.where(seen == NONE, FOREVER, seen))
    far, begin, end = (runs.where_most(each) for each in (found["number"], -found["hi"], found["end"]))
    nulls = {
        "cause": None,
        "bucket": cells["bucket"] == NONE,
        **dict.fromkeys(("chunk_lane", "chunk_place", "chunk"), cells["chunk"] == NONE),
        **dict.fromkeys(("closeup", "about"), ~sought[some]),
        "seen_least": least == FOREVER,
        **{name: column == NONE for name, column in most.items()},
    }
    values = (
        cells
        | counted
        | most
        | {
            "cause": np.array(CAUSES, object)[cells["cause"]],
            "seen_least": least,
            "far_number": found["number"][far],
            "far_recorder": found["recorder"][far],
            "far_seq": found["seq"][far],
            "begin": found["hi"][begin],
            "seen": runs.most(found["hi"]),
            "end": found["end"][end],
            "first_answer": found["answer"][begin],
            "last_answer": found["answer"][end],
        }
    )
    return pa.RecordBatch.from_arrays(
        [_column(values[field.name], field.type, nulls.get(field.name)) for field in SCHEMA], schema=SCHEMA
    )


def _column(values: NDArray[Any], kind: pa.DataType, nulls: Mask | None) -> pa.Array:
    signed = values.view(np.int64) if values.dtype == np.uint64 else values
    if nulls is not None and signed.dtype == np.int64:
        signed = np.where(nulls, 0, signed)
    return pa.array(signed, mask=nulls).cast(kind) if nulls is not None else pa.array(signed, kind)
