"""The screen over numbers: of each delivery what `screen` says, summed up as `figures.cells` does."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aiorocketmq_audit.deliveries import (
    CLOCK_SLACK_US,
    EXTEND,
    KINDS,
    NO_LADDER,
    PHASES,
    RETRY,
    TAKEN_BACK,
)
from aiorocketmq_audit.filters import unwanted
from aiorocketmq_audit.kernels.blocks import Layout, Rows
from aiorocketmq_audit.kernels.cells import cells, in_order
from aiorocketmq_audit.kernels.events import NONE, Events
from aiorocketmq_audit.kernels.histories import Histories
from aiorocketmq_audit.kernels.holds import ended, followed, groups, held
from aiorocketmq_audit.kernels.nullable import times
from aiorocketmq_audit.kernels.question import ACCOUNT, Question, Settings, Survey, chosen
from aiorocketmq_audit.kernels.suspicion import attempts_of, suspected
from aiorocketmq_audit.kernels.texts import hash_of, laid_over, mixed, mixed_as_spark_does

COLUMNS = (
    *(*ACCOUNT, "topic", "group", "broker", "queue", "offset", "message_id", "message_group", "role"),
    *("kind", "phase", "reason", "recorder", "seq", "t_wall_us", "invoked_us", "invoked_seq", "store_us"),
    *("invisible_ms", "delivery", "due_us", "batch", "receive_attempt", "attempt", "filter", "tag"),
)

GIVEN: Layout = {
    **dict.fromkeys(("key", "closeup", "about", "lane", "place"), "u8"),
    **dict.fromkeys(("offset", "lo", "hi", "seq", "hold", "due", "attempt"), "i8"),
    **dict.fromkeys(("recorder", "delivery", "answer", "again", "who"), "u8"),
    "settings": "i4",
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

_TRAITS = {
    name: 1 << bit for bit, name in enumerate(("by_broker", "grouped", "unwanted", "by_tag", "in_chunk"))
}

_REASONS = {"retry": RETRY, "extend": EXTEND, "undelivered": TAKEN_BACK}


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
        "hold": times(events.number("invisible_ms"), 1000),
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
        settings=group,
        traits=events.one_of("observer", "broker") * np.uint8(_TRAITS["by_broker"])
        + (message_group != 0) * np.uint8(_TRAITS["grouped"])
        + in_chunk * np.uint8(_TRAITS["in_chunk"])
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
    traits = np.isin(wanted, np.array([*by_tags], np.uint64)) * np.uint8(_TRAITS["by_tag"])
    for key, text in by_tags.items():
        refused = [other for other, name in tags.items() if unwanted(text, name)]
        if refused:
            foreign = (wanted == np.uint64(key)) & np.isin(tag, np.array(refused, np.uint64))
            traits += foreign * np.uint8(_TRAITS["unwanted"])
    return traits


def _answer(frame: Frame, given: Rows, settled: Rows) -> pa.RecordBatch:
    rows = Histories(given, settled, has_open_calls=frame.has_open_calls)
    group, after = groups(frame.settings, rows), followed(rows)
    hold = held(rows, after, group)
    end = ended(rows, after, hold)
    traits = {name: (rows.given("traits") & bit) > 0 for name, bit in _TRAITS.items()}
    by_broker = traits["by_broker"]
    suspects = suspected(rows, after, hold, end, group, by_broker=by_broker, ended_us=frame.ended_us)
    sought = [suspects[name] for name in ("doubled", "mistimed", "misnumbered", "hurried", "buried")]
    sought += [end.is_odd, traits["unwanted"], *([suspects["used_up"]] if frame.has_drains else [])]
    is_sought = np.logical_or.reduce(sought)
    answer, recorder, seq = (rows.given(name) for name in ("answer", "recorder", "seq"))
    found = {
        **traits,
        **suspects,
        **{name: rows.given(name) for name in ("who", "key", "lane", "place", "offset", "hi")},
        "recorder": recorder,
        "seq": seq,
        "cell_attempt": attempts_of(rows),
        "asked": hold.asked,
        "chunk": rows.given("offset") >> frame.chunk_bits,
        "is_sought": is_sought,
        "message": rows.given("closeup"),
        "closeup": np.where(is_sought, rows.given("closeup"), 0),
        "about": np.where(is_sought, rows.given("about"), 0),
        "odd": end.is_odd,
        "number": rows.number(),
        "ordered": group.ordered,
        "with_hold": hold.until_lo != NONE,
        "redelivered": after.hi != NONE,
        "wait": np.where(after.hi == NONE, NONE, hold.wait),
        "seen_after": np.where(hold.asked & (after.hi != NONE), after.hi - hold.asked_hi, NONE),
        "numbered": rows.given("attempt") != NONE,
        "scheduled": rows.given("due") != NONE,
        "dead": (hold.dead_hi != NONE) & by_broker,
        "end": end.end,
        "answer": np.where(answer == 0, mixed(recorder, seq), answer),
    }
    return cells(found | in_order(found))
