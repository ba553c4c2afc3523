"""Recordings by the suite's clients, of servers that do not record."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from aiorocketmq_conformance.case import Case
from aiorocketmq_conformance.probe.call_recorder import CallRecorder
from aiorocketmq_conformance.probe.clock import Clock

if TYPE_CHECKING:
    from aiorocketmq.recording import Recorder

RecordFault = Callable[[str], AbstractContextManager[None]]
"""Records a fault of a kind from start to end."""

UNOBSERVED: Mapping[str, str] = {
    "@reset": "clients do not observe that an administrator resets a group, which redelivers messages",
    "@delete": "clients do not observe that a topic is deleted, and its offsets are used again",
}
"""Why cases with a need are left out of recordings: an audit would report violations that the suite caused."""
_TWICE = "it settles a message a second time on purpose, and records the response"
_BY_ANSWER = "a server that locks whole queues redelivers acked followers of an un-acked head"
PROVOKED: Mapping[str, str] = {
    "dlq.forward-twice": _TWICE,
    "simple.change-after-ack": _TWICE,
    "simple.change-old-handle": _TWICE,
    "fifo.gap-ack": _BY_ANSWER,
    "fifo.change-middle": _BY_ANSWER,
    "retry.limit-lowered": "clients do not observe that an administrator lowers a group's limit",
    "retry.suspend-not-counted": "a recording has no event for a nack without counting the attempt",
}
"""The same for single cases."""


class Recordings:
    """One recording for each case in `folder`; None records nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._run_id = f"conformance-{datetime.now(UTC):%Y%m%dT%H%M%S}"

    @asynccontextmanager
    async def of(
        self, case: Case, clock: Clock, order_grain: str | None = None
    ) -> AsyncIterator[RecordFault]:
        """Record the clients on `clock`; the files are complete afterwards.

        Yields what records faults of the server. `order_grain` is what ordered groups of the server lock, `group`
        or `queue`.
        """
        if self._folder is None or left_out(case):
            yield lambda kind: nullcontext()
            return
        from aiorocketmq.recording import Recorder

        recorder = Recorder(self._folder, run_id=self._run_id, case_id=case.id)
        clock.traffic.call_recorder = CallRecorder(recorder.observe, order_grain)
        try:
            yield partial(_record_fault, recorder)
        finally:
            await asyncio.to_thread(recorder.close)


@contextmanager
def _record_fault(recorder: Recorder, kind: str) -> Iterator[None]:
    recorder.note_fault(kind, state="start")
    try:
        yield
    finally:
        recorder.note_fault(kind, state="stop")


def left_out(case: Case) -> str:
    """Return why a case is not recorded; empty if it is."""
    if case.stem in PROVOKED:
        return PROVOKED[case.stem]
    return next((reason for need, reason in UNOBSERVED.items() if need in case.needs), "")
