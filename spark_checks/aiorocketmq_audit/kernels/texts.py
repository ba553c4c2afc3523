"""Hashes of texts, for whole columns at once: XXH64 by the seed of Spark's `xxhash64`, so that both may be joined."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

NOBODY = 0
"""What stands for a text that is null."""

_SEED, _ALL = 42, (1 << 64) - 1
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


def hashes(texts: pa.Array) -> Hashes:
    """One number for each text of a string array; NOBODY for nulls."""
    if not len(texts):
        return np.empty(0, np.uint64)
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    _, borders, content = texts.buffers()
    ends = np.frombuffer(borders, width)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    first, size = ends[0], int(ends[-1] - ends[0])
    # Room for the last word, which may begin at the last byte.
    padded = np.zeros(size + 8, np.uint8)
    if size:
        padded[:size] = np.frombuffer(content, np.uint8)[first : ends[-1]]
    begins, lengths = ends[:-1] - first, np.diff(ends)
    found = np.empty(len(texts), np.uint64)
    for length in np.unique(lengths):
        which = lengths == length
        found[which] = _of_one_length(padded, begins[which], int(length))
    if texts.null_count:
        found[texts.is_null().to_numpy(zero_copy_only=False)] = NOBODY
    return found


def hash_of(text: str | None) -> int:
    """The same number for one text."""
    return int(hashes(pa.array([text], pa.string()))[0])


def mixed(*columns: NDArray[Any]) -> Hashes:
    """One number for each row of several columns of 64-bit numbers."""
    together = columns[0].view(np.uint64).copy()
    for column in columns[1:]:
        together ^= together >> np.uint64(29)
        together *= _P1
        together += column.view(np.uint64)
    return _finished(together)


def _of_one_length(content: NDArray[np.uint8], begins: NDArray[np.int64], length: int) -> Hashes:
    words: Hashes = np.ndarray((len(content) - 7,), "<u8", content, 0, (1,))
    at = begins.copy()
    if length >= 32:
        states = [
            np.full(len(at), start & _ALL, np.uint64)
            for start in (_SEED + int(_P1) + int(_P2), _SEED + int(_P2), _SEED, _SEED - int(_P1))
        ]
        for _ in range(length // 32):
            for index, state in enumerate(states):
                states[index] = _rotated(state + words[at + 8 * index] * _P2, 31) * _P1
            at += 32
        found = np.zeros(len(at), np.uint64)
        for state, by in zip(states, (1, 7, 12, 18), strict=True):
            found += _rotated(state, by)
        for state in states:
            found = (found ^ (_rotated(state * _P2, 31) * _P1)) * _P1 + _P4
    else:
        found = np.full(len(at), (_SEED + int(_P5)) & _ALL, np.uint64)
    found += np.uint64(length)
    for _ in range(length % 32 // 8):
        found = _rotated(found ^ (_rotated(words[at] * _P2, 31) * _P1), 27) * _P1 + _P4
        at += 8
    if length % 8 >= 4:
        found = _rotated(found ^ ((words[at] & np.uint64(0xFFFFFFFF)) * _P1), 23) * _P2 + _P3
        at += 4
    for _ in range(length % 4):
        found = _rotated(found ^ (content[at].astype(np.uint64) * _P5), 11) * _P1
        at += 1
    return _finished(found)


def _rotated(values: Hashes, by: int) -> Hashes:
    found = values << np.uint64(by)
    found |= values >> np.uint64(64 - by)
    return found


def _finished(values: Hashes) -> Hashes:
    """Mixed once more, in place."""
    values ^= values >> np.uint64(33)
    values *= _P2
    values ^= values >> np.uint64(29)
    values *= _P3
    values ^= values >> np.uint64(32)
    return values
