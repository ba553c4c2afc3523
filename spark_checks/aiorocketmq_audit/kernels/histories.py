"""The way of each message: its rows in the order of time, and what can be said of its deliveries by them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiorocketmq_audit.deliveries import ACK, DEAD, DELIVER, FAILED, FORWARD, INVOKED
from aiorocketmq_audit.kernels.blocks import Rows, begins_of
from aiorocketmq_audit.kernels.events import NONE, Mask, Numbers
from aiorocketmq_audit.kernels.question import FOREVER
from aiorocketmq_audit.kernels.texts import mixed


class Histories:
    """The rows of messages, each in the order of time, with a view on the deliveries among them."""

    def __init__(self, given: Rows, settled: Rows, *, has_open_calls: bool) -> None:
        kind = np.append(np.full(len(given["key"]), DELIVER, np.uint8), settled["kind"])
        at = np.append(given["hi"], settled["lo"])
        order = np.lexsort(
            (np.append(given["seq"], settled["seq"]), at, np.append(given["closeup"], settled["closeup"]))
        )
        self._settled = settled
        self._given = given
        self.kind, self.order = kind[order], order
        if has_open_calls:
            self._leave_out_answered_calls()
        closeup = self.rows("closeup")
        self.at = at[self.order]
        self.begins = np.flatnonzero(begins_of(closeup))
        self.message = np.repeat(np.arange(len(self.begins)), np.diff(np.append(self.begins, len(closeup))))
        self.deliveries = np.flatnonzero(self.kind == DELIVER)
        self.of = self.message[self.deliveries]

    def rows(self, name: str, missing: int = 0) -> NDArray[Any]:
        """A column of all rows; `missing` where only deliveries have it, or only the others."""
        parts = [
            rows[name] if name in rows else np.full(len(rows["key"]), missing, kind)
            for rows, kind in (
                (self._given, self._settled[name].dtype if name in self._settled else None),
                (self._settled, self._given[name].dtype if name in self._given else None),
            )
        ]
        return np.concatenate(parts)[self.order]

    def given(self, name: str) -> NDArray[Any]:
        """A column of the deliveries."""
        found: NDArray[Any] = self._given[name][self.order[self.deliveries]]
        return found

    def after(self, steps: int, rows: NDArray[Any], missing: int) -> NDArray[Any]:
        """Of each delivery, a column's value so many rows later, if that is of the same message."""
        places = self.deliveries + steps
        inside = np.minimum(places, len(self.message) - 1)
        return np.where(
            (places < len(self.message)) & (self.message[inside] == self.of), rows[inside], missing
        )

    def head(self) -> NDArray[np.uint8]:
        """The kind of the first row of the message."""
        return self.kind[self.begins][self.of]

    def in_message(self, which: Mask) -> Mask:
        """Whether it is so for any delivery of the message."""
        return np.asarray(np.bincount(self.of, which, len(self.begins))[self.of] > 0)

    def has_copies(self) -> Mask:
        """Whether first attempts of the message came from different places."""
        first = self.given("attempt") == 1
        place = mixed(self.given("place"), self.given("offset"))
        least = np.full(len(self.begins), np.iinfo(np.uint64).max, np.uint64)
        most = np.zeros(len(self.begins), np.uint64)
        np.minimum.at(least, self.of[first], place[first])
        np.maximum.at(most, self.of[first], place[first])
        return np.asarray((least < most)[self.of])

    def number(self) -> Numbers:
        """Which delivery of its message each one is."""
        ranks = np.arange(1, len(self.of) + 1)
        before = np.searchsorted(self.of, np.arange(len(self.begins)))
        return ranks - before[self.of]

    def came_again(self) -> Numbers:
        """When the message was handed out next."""
        again = np.full(len(self.of), NONE, np.int64)
        same = self.of[1:] == self.of[:-1]
        again[:-1][same] = self.given("hi")[1:][same]
        return again

    def ended(self) -> Numbers:
        """The first end of the message that anybody told."""
        ends = np.isin(self.kind, (ACK, FORWARD, DEAD)) & (self.rows("phase") != FAILED)
        if not len(self.begins):
            return np.empty(0, np.int64)
        least = np.minimum.reduceat(np.where(ends, self.rows("lo"), FOREVER), self.begins)
        return np.where(least == FOREVER, NONE, least)[self.of]

    def _leave_out_answered_calls(self) -> None:
        """Those whose completion stands beside them: it bears the call's time and number."""
        closeup, seq, phase = self.rows("closeup"), self.rows("seq"), self.rows("phase")
        pair = (closeup[1:] == closeup[:-1]) & (seq[1:] == seq[:-1]) & (self.kind[1:] == self.kind[:-1])
        answer = (phase != INVOKED) & (phase != 0)
        beside = np.zeros(len(phase), np.bool_)
        beside[1:] |= pair & answer[:-1]
        beside[:-1] |= pair & answer[1:]
        kept = ~((phase == INVOKED) & beside)
        self.order, self.kind = self.order[kept], self.kind[kept]
