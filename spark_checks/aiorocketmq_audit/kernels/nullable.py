"""Numbers of which some are not told: NONE, which is below all others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aiorocketmq_audit.kernels.events import NONE, Mask, Numbers


def bucket(values: Numbers, known: Mask, borders_s: Sequence[float]) -> Numbers:
    """Behind how many borders, given in seconds, each of the `known` microseconds lies; NONE for the others."""
    borders = [round(border * 1e6) for border in borders_s]
    return np.where(known, np.searchsorted(borders, np.where(known, values, 0), "right"), NONE)


def times(values: Numbers, by: int) -> Numbers:
    """So many times each."""
    return np.where(values == NONE, NONE, values * by)


def plus(one: Numbers, other: Numbers) -> Numbers:
    """Their sums, where both are told."""
    return np.where((one == NONE) | (other == NONE), NONE, one + other)


def least(one: Numbers, other: Numbers) -> Numbers:
    """The lesser one; what is NONE does not count."""
    return np.where(one == NONE, other, np.where(other == NONE, one, np.minimum(one, other)))


def is_below(one: Numbers, other: Numbers) -> Mask:
    """Both are told, and one is less than the other; NONE is below everything."""
    return np.asarray((one < other) & (one != NONE))
