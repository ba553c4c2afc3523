"""What the gates look at, over numbers: the rows of `gates.by_kind`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiorocketmq_audit.gates import COUNTED_KINDS, LOW, OPERATION_PHASES
from aiorocketmq_audit.kernels.blocks import Runs
from aiorocketmq_audit.kernels.events import NONE, Events, Mask, Numbers
from aiorocketmq_audit.kernels.texts import mixed
from aiorocketmq_audit.recording.schema import COLUMNS as RECORDED, REQUIRED

_NAMED = ("recorder", "boot", "kind", "phase")


def by_kind(events: Events, also: Mapping[str, Mask] = MappingProxyType({})) -> list[dict[str, Any]]:
    """One row for each recorder, boot, kind and phase of these events, with counts of what `also` tells."""
    if not len(events):
        return []
    runs = Runs(mixed(*(events.text(name) for name in _NAMED)))
    seq, at = events.number("seq"), events.number("t_wall_us")
    low = seq & LOW
    beside = at - events.number("t_mono_ns") // 1000
    told = _told_by_servers(events)
    columns: dict[str, NDArray[Any]] = {
        "n": runs.lengths,
        "foreign": runs.count(_is_foreign(events)),
        "first": runs.least(seq),
        "last": runs.most(seq),
        "total": runs.sum(seq),
        "xor": runs.xor(seq),
        "squares": runs.sum(low * low),
        "numbered": runs.count(events.told("invoked_seq")),
        "named": runs.count(events.known("op_id")),
        "names": runs.xor(events.text("op_id").view(np.int64)),
        "from_us": runs.least(at),
        "to_us": runs.most(at),
        "beside_least": runs.least(beside),
        "beside_most": runs.most(beside),
        "ahead_us": runs.most(np.where(told == NONE, NONE, told - at)),
        "behind_us": runs.most(np.where(told == NONE, NONE, events.called() - told)),
        "version": runs.most(_versions(events)),
        **{name: runs.count(which) for name, which in also.items()},
        "n_pull": runs.count(events.one_of("kind", "deliver") & events.one_of("role", "pull")),
    }
    texts = {name: events.vocabulary(name) for name in _NAMED}
    rows = []
    for place, row in enumerate(runs.order[runs.begins]):
        recorder, boot, kind, phase = (texts[name][int(events.text(name)[row])] for name in _NAMED)
        counts = {name: _plain(column[place]) for name, column in columns.items()}
        rows.append(
            {
                "recorder": recorder,
                "boot": boot,
                "of_kind": kind if kind in COUNTED_KINDS else None,
                "of_phase": phase if phase in OPERATION_PHASES else None,
                **counts,
            }
        )
    return rows


def _told_by_servers(events: Events) -> Numbers:
    """A server's own time beside that of an observer: INV-CLOCK."""
    # What was sent was stored between the call and its answer.
    is_sent = events.one_of("kind", "send") & events.one_of("phase", "ok")
    is_sent &= ~events.told("due_us") & ~events.known("tx_id")
    given = np.where(events.one_of("kind", "deliver"), events.number("server_deliver_us"), NONE)
    return np.where(is_sent, events.number("store_us"), given)


def _is_foreign(events: Events) -> NDArray[np.bool_]:
    missing = np.zeros(len(events), np.bool_)
    for name in REQUIRED:
        is_text = RECORDED[name].typeName() == "string"
        missing |= ~(events.known(name) if is_text else events.told(name))
    return missing


def _versions(events: Events) -> Numbers:
    """The version that a recorder writes at its start; -1 for one that is no number."""
    versions = np.full(len(events), NONE, np.int64)
    starts = np.flatnonzero(events.one_of("kind", "recorder.start"))
    for row, cfg in zip(starts, events.plain("cfg", starts), strict=True):
        text = dict(cfg or ()).get("version")
        versions[row] = NONE if text is None else _number(text)
    return versions


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return -1


def _plain(value: Any) -> int | None:
    number = int(value)
    return None if number == NONE else number
