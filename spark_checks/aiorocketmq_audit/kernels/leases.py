"""The exact pass over numbers: of each delivery what `deliveries` says, summed up as `figures.cells` does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
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
from aiorocketmq_audit.kernels.blocks import Layout, Rows
from aiorocketmq_audit.kernels.borders import borders
from aiorocketmq_audit.kernels.cells import cells
from aiorocketmq_audit.kernels.events import NONE, Events, Mask
from aiorocketmq_audit.kernels.histories import Histories
from aiorocketmq_audit.kernels.holds import Group, Hold, Next, followed, groups, held
from aiorocketmq_audit.kernels.nullable import times
from aiorocketmq_audit.kernels.places import topics
from aiorocketmq_audit.kernels.question import Polls, Question, Settings, Survey, Told, chosen
from aiorocketmq_audit.kernels.settled import CALLED, Settled, settled
from aiorocketmq_audit.kernels.suspicion import attempts_of, is_not_buried, suspected
from aiorocketmq_audit.kernels.texts import Hashes, hash_of, mixed
from aiorocketmq_audit.kernels.wishes import is_refused
from aiorocketmq_audit.sides import NOT_BURIED

GIVEN: Layout = {
    **dict.fromkeys(("key", "closeup", "about", "lane", "place"), "u8"),
    **dict.fromkeys(("offset", "lo", "hi", "seq", "hold", "due", "attempt"), "i8"),
    **dict.fromkeys(("recorder", "delivery", "answer", "again", "who"), "u8"),
    **dict.fromkeys(("settings", "poll", "queue"), "i4"),
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
    polls: Polls | None
    """Those by which messages may be late; None where nobody knows them all."""


def question(frame: Frame) -> Question:
    """What is asked of all deliveries."""
    given = {**GIVEN, "drained": "i8"} if frame.has_drains else GIVEN
    return Question((given, SETTLED), partial(rows, frame), partial(_answer, frame))


def told(events: Events) -> Events:
    """Those that say anything of a delivery."""
    return events.some(
        events.one_of("kind", *KINDS)
        & events.known("group")
        & events.known("message_id")
        & ~events.one_of("role", "pull")
    )


def rows(frame: Frame, events: Events, survey: Survey) -> tuple[Rows, Rows]:
    """Deliveries, and what came of them."""
    events = told(events)
    given = events.one_of("kind", "deliver")
    settled = ~given
    if not frame.has_open_calls:
        settled &= events.one_of("kind", "dlq.deliver") | (
            events.known("phase") & ~events.one_of("phase", "invoke")
        )
    group = frame.settings.of(events)
    ordered = frame.settings.ordered[group] == 1
    about, message_group = events.text("message_id"), events.text("message_group")
    offset, queue, broker = events.number("offset"), events.number("queue"), events.text("broker")
    recorder = events.text("recorder")
    lane = lanes_of(events)
    message = about.copy()
    copies = np.flatnonzero(ordered)
    message[copies] = mixed(about[copies], broker[copies], queue[copies], offset[copies])
    closeup, place = mixed(lane, message), mixed(broker, queue)
    in_chunk = ordered & (message_group != 0) & (offset != NONE)
    key, chunked = about.copy(), np.flatnonzero(in_chunk)
    key[chunked] = mixed(lane[chunked], place[chunked], offset[chunked] >> frame.chunk_bits)
    at = events.number("t_wall_us")
    called = events.called()
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
    phase = events.codes("phase", PHASES)
    if not frame.has_open_calls:
        phase += (settled & events.told("invoked_seq")) * np.uint8(CALLED)
    more = {"drained": survey.drained.of(topics(events), NONE)} if frame.has_drains else {}
    again = events.text("receive_attempt")
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
        recorder=recorder,
        answer=answers_of(events),
        again=np.where(again == np.uint64(hash_of("")), np.uint64(0), again),
        who=events.text("group"),
        settings=group,
        poll=np.full(len(events), -1) if frame.polls is None else frame.polls.among(topics(events)),
        queue=np.where(events.told("queue"), queue, -1),
        **more,
        traits=events.one_of("observer", "broker") * np.uint8(_TRAITS["by_broker"])
        + (message_group != 0) * np.uint8(_TRAITS["grouped"])
        + in_chunk * np.uint8(_TRAITS["in_chunk"])
        + _wishes(events),
    ), chosen(
        settled,
        **common,
        recorder=recorder,
        lo=called,
        seq=events.called_seq(),
        kind=events.codes("kind", KINDS),
        phase=phase,
        reason=np.where(
            events.known("reason"),
            events.codes("reason", _REASONS),
            events.one_of("role", "simple") * np.uint8(NO_LADDER),
        ),
    )


def lanes_of(events: Events) -> Hashes:
    """The message group of each event, or its message where it has none, of its account and group."""
    about, message_group = events.text("message_id"), events.text("message_group")
    return mixed(topics(events), np.where(message_group == 0, about, message_group))


def answers_of(events: Events) -> Hashes:
    """In which answer each event's message came; 0 where nobody told."""
    batch = events.text("batch")
    return np.where(batch == 0, np.uint64(0), mixed(events.text("recorder"), batch))


def _wishes(events: Events) -> NDArray[np.uint8]:
    wanted = events.text("filter")
    traits = np.zeros(len(events), np.uint8)
    for key, text in events.vocabulary("filter").items():
        if text is not None and text.startswith("TAG:"):
            asked = wanted == np.uint64(key)
            traits += asked * np.uint8(_TRAITS["by_tag"])
            traits += (asked & is_refused(events, text)) * np.uint8(_TRAITS["unwanted"])
    return traits


@dataclass(frozen=True, slots=True)
class Judged:
    """Deliveries by themselves, with what the checks suspect."""

    rows: Histories
    group: Group
    after: Next
    done: Settled
    hold: Hold
    copies: Mask
    traits: Mapping[str, Mask]
    suspects: Mapping[str, NDArray[Any]]


def judged(frame: Frame, rows: Histories) -> Judged:
    """Judge each delivery by what was done about it, and by the next one."""
    group, after, done = groups(frame.settings, rows), followed(rows), settled(rows)
    hold, copies = held(rows, after, done, group), rows.has_copies()
    traits = {name: (rows.given("traits") & bit) > 0 for name, bit in _TRAITS.items()}
    suspects = suspected(
        rows,
        after,
        done,
        hold,
        group,
        copies=copies,
        by_broker=traits["by_broker"],
        ended_us=frame.ended_us,
        polls=frame.polls,
    )
    return Judged(rows, group, after, done, hold, copies, traits, suspects)


def _answer(frame: Frame, given: Rows, settled_: Rows) -> Told:
    told_of = judged(frame, Histories(given, settled_))
    rows, group, after, hold = told_of.rows, told_of.group, told_of.after, told_of.hold
    traits, suspects = told_of.traits, told_of.suspects
    sought = [suspects[name] for name in ("doubled", "mistimed", "misnumbered", "hurried", "buried")]
    counts = {}
    if frame.has_drains:
        over, live = is_not_buried(
            rows,
            after,
            told_of.done,
            hold,
            group,
            by_broker=traits["by_broker"],
            drained=rows.given("drained"),
        )
        counts[NOT_BURIED] = (int(over.sum()), int(live.sum()))
        sought.append(live)
    number = rows.number()
    is_first, grouped = number == 1, traits["grouped"]
    found = {
        **traits,
        **suspects,
        **{name: rows.given(name) for name in ("who", "key", "lane", "place", "offset", "hi", "about")},
        "recorder": rows.given("recorder"),
        "seq": rows.given("seq"),
        "cell_attempt": attempts_of(rows),
        "asked": hold.asked,
        "chunk": rows.given("offset") >> frame.chunk_bits,
        "message": rows.given("closeup"),
        "number": number,
        "first": is_first,
        "ordered_first": is_first & (group.ordered == 1) & grouped,
        "unknown_order": (group.ordered == NONE) & grouped,
        "with_hold": hold.until_lo != NONE,
        "redelivered": after.hi != NONE,
        "wait": np.where(after.hi == NONE, NONE, hold.wait),
        "seen_after": np.where(hold.asked & (after.hi != NONE), after.hi - hold.asked_hi, NONE),
        "numbered": rows.given("attempt") != NONE,
        "scheduled": rows.given("due") != NONE,
        "dead": (told_of.done.dead_hi != NONE) & traits["by_broker"],
        "end": hold.end,
        "answer": rows.answers(),
    }
    is_sought = np.logical_or.reduce([*sought, traits["unwanted"]])
    return Told(counts, cells(found), borders(found), np.unique(found["about"][is_sought]))
