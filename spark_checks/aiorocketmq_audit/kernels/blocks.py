"""Rows of numbers on their way: cut by key into shares, as bytes, and together again, in the order of the key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aiorocketmq_audit.kernels.texts import Hashes

Rows = Mapping[str, NDArray[Any]]
"""Columns of one length. One of them, `key`, says which rows are looked at together."""

Layout = Mapping[str, str]
"""The columns that a question exchanges, with numpy's names of their types."""

KEY = "key"


Segment = tuple[int, bytes]
"""Some rows, column by column: how many, and their bytes."""


def shares(rows: Rows, layout: Layout, count: int) -> Iterator[tuple[int, Segment]]:
    """Cut rows into at most `count` shares; rows of one key are in one share, by whoever cuts."""
    if not len(rows[KEY]):
        return
    # Not the lowest bits: who makes tables of a share's keys needs those to differ.
    share = ((rows[KEY] >> np.uint64(40)) % np.uint64(count)).astype(np.uint16)
    order = np.argsort(share, kind="stable")
    borders = np.searchsorted(share[order], np.arange(count + 1))
    columns = [rows[name].astype(kind, copy=False)[order] for name, kind in layout.items()]
    for index, (begin, end) in enumerate(pairwise(borders)):
        if end > begin:
            yield index, (int(end - begin), b"".join(column[begin:end].tobytes() for column in columns))


_CODEC = pa.Codec("lz4_raw")
"""Half of the bytes, before they go through disks and other processes."""


def packed(segments: Sequence[Segment]) -> bytes:
    """Segments of one share as a block."""
    content = b"".join(content for _, content in segments)
    head = np.array([len(content), len(segments), *(rows for rows, _ in segments)], "<i8")
    compressed: bytes = _CODEC.compress(content, asbytes=True)
    return head.tobytes() + compressed


def joined(blocks: Sequence[pa.Buffer | bytes], layout: Layout) -> dict[str, NDArray[Any]]:
    """The rows of one share."""
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in layout}
    for block in blocks:
        size, count = np.frombuffer(block, "<i8", 2).tolist()
        lengths = np.frombuffer(block, "<i8", count, 16).tolist()
        content, at = _CODEC.decompress(memoryview(block)[16 + 8 * count :], size), 0
        for rows in lengths:
            for name, kind in layout.items():
                parts[name].append(np.frombuffer(content, kind, rows, at))
                at += rows * np.dtype(kind).itemsize
    return {
        name: np.concatenate(columns) if columns else np.empty(0, layout[name])
        for name, columns in parts.items()
    }


class Runs:
    """Rows in the order of a key, of which equal ones stand together."""

    def __init__(self, key: Hashes) -> None:
        self.order = np.argsort(key)
        self.key = key[self.order]
        self.begins = np.flatnonzero(begins_of(self.key))

    def __len__(self) -> int:
        return len(self.begins)

    def first(self, values: NDArray[Any]) -> NDArray[Any]:
        """Of each key, the value of one of its rows: what is the same for all of them."""
        return np.asarray(values[self.order[self.begins]])

    def least(self, values: NDArray[Any]) -> NDArray[Any]:
        """Of each key, the least of `values`, which are given in the rows' first order."""
        return self._folded(np.minimum, values)

    def most(self, values: NDArray[Any]) -> NDArray[Any]:
        """Of each key, the greatest."""
        return self._folded(np.maximum, values)

    def any(self, values: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Of each key, whether one is true."""
        return self._folded(np.maximum, values).astype(np.bool_)

    def count(self, values: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Of each key, how many are true."""
        return self._folded(np.add, values.astype(np.int64)).astype(np.int64)

    def sum(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Of each key, the sum."""
        return self._folded(np.add, values)

    def xor(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of each key, the exclusive-or."""
        return self._folded(np.bitwise_xor, values)

    def where_most(self, values: NDArray[Any]) -> NDArray[np.intp]:
        """Of each key, a row with the greatest value."""
        most = np.flatnonzero(values[self.order] == np.repeat(self.most(values), self.lengths))
        # The first of each.
        run = np.searchsorted(self.begins, most, "right") - 1
        places = most[np.searchsorted(run, np.arange(len(self.begins)))]
        return self.order[places]

    @property
    def lengths(self) -> NDArray[np.intp]:
        """Of each key, how many rows there are."""
        return np.diff(np.append(self.begins, len(self.order)))

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """What is known of each key, to all of its rows, in their first order."""
        found = np.empty(len(self.order), values.dtype)
        found[self.order] = np.repeat(values, self.lengths)
        return found

    def _folded(self, by: np.ufunc, values: NDArray[Any]) -> NDArray[Any]:
        if not len(self.begins):
            return values[:0]
        folded: NDArray[Any] = by.reduceat(values[self.order], self.begins)
        return folded


def folded(
    by: np.ufunc, values: NDArray[Any], of: NDArray[np.intp], count: int, missing: int
) -> NDArray[Any]:
    """What `values` come to by each of `count` places, which stand in order in `of`; `missing` where there are none."""
    found = np.full(count, missing, values.dtype)
    begins = np.flatnonzero(begins_of(of))
    if len(begins):
        found[of[begins]] = by.reduceat(values, begins)
    return found


def begins_of(key: NDArray[Any]) -> NDArray[np.bool_]:
    """Where another key begins, of rows in its order."""
    return np.append(True, key[1:] != key[:-1])[: len(key)]


def first_of(begins: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Of each row the one with which its run began, where `begins` says that runs do."""
    return np.maximum.accumulate(np.where(begins, np.arange(len(begins)), 0))


def last_so_far(which: NDArray[np.bool_], first: NDArray[np.intp]) -> NDArray[np.intp]:
    """Of each row the last one up to it that is chosen, from the row `first` on; -1 without any."""
    places = np.maximum.accumulate(np.where(which, np.arange(len(which)), -1))
    return np.where(places >= first, places, -1)


def greatest_so_far(values: NDArray[np.int64], begins: NDArray[np.bool_]) -> NDArray[np.int64]:
    """A running maximum that begins anew where `begins` says."""
    if not len(values):
        return values
    ordered, ranks = np.unique(values, return_inverse=True)
    part = np.cumsum(begins) * len(ordered)
    found: NDArray[np.int64] = ordered[np.maximum.accumulate(part + ranks) - part]
    return found
