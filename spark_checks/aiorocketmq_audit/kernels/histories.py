"""The way of each message: its deliveries in the order of time, and after which of them everything else happened."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiorocketmq_audit.kernels.blocks import Rows, begins_of, folded, last_so_far
from aiorocketmq_audit.kernels.events import NONE, Mask, Numbers
from aiorocketmq_audit.kernels.texts import mixed


class Histories:
    """Deliveries, message by message, each in the order of time; what came before the first one is left out."""

    def __init__(self, given: Rows, settled: Rows) -> None:
        many = len(given["key"])
        closeup, at, seq = (
            np.append(given[mine], settled[other])
            for mine, other in (("closeup", "closeup"), ("hi", "lo"), ("seq", "seq"))
        )
        order = np.lexsort((seq, at, closeup))
        is_given = order < many
        message = np.cumsum(begins_of(closeup[order])) - 1
        self._given, self._which = given, order[is_given]
        self.of: NDArray[np.intp] = message[is_given]
        """The message of each delivery, by number."""
        before, own = np.cumsum(is_given)[~is_given] - 1, message[~is_given]
        mine = before >= 0
        mine[mine] = self.of[before[mine]] == own[mine]
        self._settled, self._others = settled, order[~is_given][mine] - many
        self.settles: NDArray[np.intp] = before[mine]
        """After which delivery each of the others happened."""
        begins = begins_of(self.of)
        self._begins = np.flatnonzero(begins)
        self._place = np.cumsum(begins) - 1
        self._goes_on = ~begins[1:]

    def __len__(self) -> int:
        return len(self._which)

    def given(self, name: str) -> NDArray[Any]:
        """A column of the deliveries."""
        return np.asarray(self._given[name][self._which])

    def others(self, name: str) -> NDArray[Any]:
        """A column of what was done about them."""
        return np.asarray(self._settled[name][self._others])

    def next(self, name: str, missing: int) -> NDArray[Any]:
        """A column of the next delivery of each one's message; `missing` at the last."""
        column = self.given(name)
        following = np.full_like(column, missing)
        following[:-1][self._goes_on] = column[1:][self._goes_on]
        return following

    def answers(self) -> NDArray[np.uint64]:
        """The answer in which each delivery came; one that is like no other's where nobody told."""
        answer = self.given("answer")
        return np.where(answer == 0, mixed(self.given("recorder"), self.given("seq")), answer)

    def number(self) -> Numbers:
        """Which delivery of its message each one is."""
        return np.asarray(np.arange(1, len(self) + 1) - self._begins[self._place])

    def least(self, values: Numbers) -> Numbers:
        """Of each delivery's message, the least of the values that are told."""
        told = values != NONE
        found = folded(np.minimum, values[told], self._place[told], len(self._begins), NONE)
        return np.asarray(found[self._place])

    def has_copies(self) -> Mask:
        """Whether first attempts of the message came from different places."""
        first = self.given("attempt") == 1
        place, of = mixed(self.given("place"), self.given("offset"))[first], self._place[first]
        least, most = (folded(by, place, of, len(self._begins), 0) for by in (np.minimum, np.maximum))
        return np.asarray((least != most)[self._place])

    def handles(self) -> NDArray[np.uint64]:
        """The handle of each delivery, or of the last one of its message before it that has any; 0 without."""
        handle = self.given("delivery")
        told = last_so_far(handle != 0, self._begins[self._place])
        return np.where(told >= 0, handle[told], np.uint64(0))
