"""Numbers of which some are not told: NONE, which is below all others."""

from __future__ import annotations

import numpy as np

from aiorocketmq_audit.kernels.events import NONE, Mask, Numbers


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
