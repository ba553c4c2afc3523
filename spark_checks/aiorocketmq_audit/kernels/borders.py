"""Whether message groups are in order: within chunks of their offsets, and from each chunk to the later ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiorocketmq_audit.kernels.blocks import Rows, Runs, begins_of, greatest_so_far
from aiorocketmq_audit.kernels.texts import Hashes, mixed

_CHUNK = ("lane", "place", "chunk")


def borders(found: Mapping[str, NDArray[Any]]) -> Rows:
    """One row for each chunk of these deliveries: whether anything in it could be out of order, and what must be known
    of it to compare it with those before and after. Its rows are all here."""
    which = np.flatnonzero(found["in_chunk"])
    rows = {name: found[name][which] for name in (*_CHUNK, "hi", "end", "answer")}
    rows["disorder"] = _disorder(found, which)
    return _folded(
        rows | {"begin": rows["hi"], "first_answer": rows["answer"], "last_answer": rows["answer"]}
    )


def disordered(parts: Sequence[Rows]) -> Hashes:
    """Message groups in which something could be out of order."""
    if not parts:
        return np.empty(0, np.uint64)
    chunks = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.lexsort((chunks["chunk"], chunks["place"], chunks["lane"]))
    chunks = {name: column[order] for name, column in chunks.items()}
    same = (chunks["lane"][1:] == chunks["lane"][:-1]) & (chunks["place"][1:] == chunks["place"][:-1])
    begins = np.append(True, ~same)[: len(order)]
    opened, seen = (greatest_so_far(chunks[name], begins)[:-1] for name in ("end", "hi"))
    # An answer may lie across the border; what stood before it was compared with its first message.
    one_answer = (chunks["last_answer"][:-1] == chunks["first_answer"][1:]) & (opened == chunks["end"][:-1])
    begin = chunks["begin"][1:]
    wrong = chunks["disorder"].copy()
    wrong[1:] |= same & (((opened > begin) & ~one_answer) | (seen > begin))
    return np.unique(chunks["lane"][wrong])


def _folded(rows: Rows) -> Rows:
    runs = Runs(mixed(*(rows[name] for name in _CHUNK)))
    first, last = runs.where_most(-rows["begin"]), runs.where_most(rows["end"])
    return {
        **{name: runs.first(rows[name]) for name in _CHUNK},
        "disorder": runs.any(rows["disorder"]),
        "begin": rows["begin"][first],
        "hi": runs.most(rows["hi"]),
        "end": rows["end"][last],
        "first_answer": rows["first_answer"][first],
        "last_answer": rows["last_answer"][last],
    }


def _disorder(found: Mapping[str, NDArray[Any]], which: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Where, in a chunk, a delivery began before all that is in front of it was over: `screen._ordered`."""
    columns = tuple(found[name][which] for name in ("seq", "hi", "message", "offset", "key"))
    order = np.lexsort(columns)
    part, hi, end, answer, seq = (found[name][which][order] for name in ("key", "hi", "end", "answer", "seq"))
    same = part[1:] == part[:-1]
    # The messages of one answer do not wait for each other; what stood before the first of them did for all.
    goes_on = same & (answer[1:] == answer[:-1]) & (hi[1:] == hi[:-1])
    begins = begins_of(part)
    opened, seen = (greatest_so_far(values, begins)[:-1] for values in (end, hi))
    overtakes = same & ((opened > hi[1:]) | (seen > hi[1:]))
    wrong = np.zeros(len(which), np.bool_)
    wrong[order[1:]] = np.where(goes_on, seq[:-1] > seq[1:], overtakes)
    return wrong
