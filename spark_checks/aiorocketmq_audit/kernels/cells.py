"""`figures.cells` over numbers, by chunk and by what is sought, with the borders of chunks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aiorocketmq_audit.kernels.blocks import Runs, begins_of, greatest_so_far
from aiorocketmq_audit.kernels.events import NONE, Mask
from aiorocketmq_audit.kernels.question import FOREVER
from aiorocketmq_audit.kernels.suspicion import CAUSES
from aiorocketmq_audit.kernels.texts import mixed

_COUNTED = (
    *("with_hold", "redelivered", "doubled", "mistimed", "misnumbered", "numbered", "hurried", "scheduled"),
    *("unwanted", "by_tag", "dead", "disorder"),
)

SCHEMA = pa.schema(
    [
        *(("by_broker", pa.bool_()), ("who", pa.int64()), ("cell_attempt", pa.int32())),
        *(("cause", pa.string()), ("bucket", pa.int32()), ("asked", pa.bool_())),
        *(("chunk_lane", pa.int64()), ("chunk_place", pa.int64()), ("chunk", pa.int64())),
        *(("closeup", pa.int64()), ("about", pa.int64()), ("odd", pa.bool_())),
        *((name, pa.int64()) for name in ("n", "first", "ordered_first", "unknown_order")),
        *((name, pa.int64()) for name in _COUNTED),
        *((name, pa.int64()) for name in ("asked_us", "asked_most", "seen_us", "seen_least", "seen_most")),
        *((name, pa.int64()) for name in ("far_number", "far_recorder", "far_seq")),
        *((name, pa.int64()) for name in ("begin", "seen", "end", "first_answer", "last_answer")),
    ]
)
"""`figures.cells` by chunk and by what is sought, with their borders: as `closeup` has them."""


def cells(found: Mapping[str, NDArray[Any]]) -> pa.RecordBatch:
    """Rows of SCHEMA: the deliveries, summed up."""
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
    cell = {name: column[some] for name, column in columns.items()}
    first, wait, seen = found["number"] == 1, found["wait"], found["seen_after"]
    counted = {name: runs.count(found[name]) for name in _COUNTED} | {
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
        "bucket": cell["bucket"] == NONE,
        **dict.fromkeys(("chunk_lane", "chunk_place", "chunk"), cell["chunk"] == NONE),
        **dict.fromkeys(("closeup", "about"), ~sought[some]),
        "seen_least": least == FOREVER,
        **{name: column == NONE for name, column in most.items()},
    }
    values = (
        cell
        | counted
        | most
        | {
            "cause": np.array(CAUSES, object)[cell["cause"]],
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


def in_order(found: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Where, in a chunk, a delivery began before all that is in front of it was over: `screen._ordered`."""
    disorder = np.zeros(len(found["hi"]), np.bool_)
    which = np.flatnonzero(found["in_chunk"])
    columns = (found[name][which] for name in ("seq", "hi", "message", "offset", "key"))
    which = which[np.lexsort(tuple(columns))]
    part, hi, end = (found[name][which] for name in ("key", "hi", "end"))
    answer, seq = found["answer"][which], found["seq"][which]
    same = part[1:] == part[:-1]
    goes_on = same & (answer[1:] == answer[:-1]) & (hi[1:] == hi[:-1])
    begins = begins_of(part)
    opened, seen = (greatest_so_far(values, begins)[:-1] for values in (end, hi))
    overtakes = same & ((opened > hi[1:]) | (seen > hi[1:]))
    disorder[which[1:]] = np.where(goes_on, seq[:-1] > seq[1:], overtakes)
    return {"disorder": disorder}
