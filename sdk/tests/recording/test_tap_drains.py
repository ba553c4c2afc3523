"""What a tap reports delays a drain as the same events would."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from aiorocketmq._session.events import Acking, Answer, Sent, Tap
from aiorocketmq.hooks import Phase
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.recording import Recorder

from sdk.tests.recording.events_as_rows import (
    CONSUMER,
    PRODUCER,
    QUEUE,
    Instants,
    a_poll,
    asked,
    received,
    rows_of,
)

pytest.importorskip("pyarrow.parquet")

LEASED = Answer(operation=None, broker="broker-a", filter=None, is_leased=True, invisible=30.0)
QUIET = 75.0
"""Twice the lease, and the tolerance."""
ACKING = Acking(20, (), [(1, 1, None)])
SENT = Sent(30, Message("orders", b"1"), "M2", 1)


@pytest.fixture
def tap(recorder: Recorder) -> Tap:
    """A tap that has reported one message of each state."""
    tap = recorder._tap()
    assert tap is not None
    tap.delivered(CONSUMER, LEASED, 1, [received()])
    tap.handling(CONSUMER, 10, 1, 1)
    tap.acking(CONSUMER, ACKING)
    tap.sending(PRODUCER, SENT)
    return tap


def poll(recorder: Recorder, clock: Instants, begun: float) -> None:
    """A poll of the whole topic that returns nothing."""
    clock.now = begun
    call = replace(a_poll(Phase.INVOKE), operation=f"{begun}", readable=(QUEUE,))
    recorder.observe(call)
    recorder.observe(replace(call, phase=Phase.OK))


@pytest.mark.parametrize(
    ("fact", "quiet"),
    [
        (lambda tap: tap.delivered(CONSUMER, LEASED, 2, [received()]), QUIET),
        (lambda tap: tap.delivered(CONSUMER, replace(LEASED, invisible=100.0), 2, [received()]), 215.0),
        (lambda tap: tap.delivered(CONSUMER, replace(LEASED, invisible=None), 2, [received()]), 135.0),
        (lambda tap: tap.handling(CONSUMER, 11, 1, 1), QUIET),
        (lambda tap: tap.handled(CONSUMER, 10, 1, 1, True), QUIET),
        (lambda tap: tap.acking(CONSUMER, Acking(21, (), [(1, 1, None)])), QUIET),
        (lambda tap: tap.acked(CONSUMER, ACKING, None), QUIET),
        (lambda tap: tap.sending(PRODUCER, replace(SENT, operation=31)), QUIET),
        (lambda tap: tap.sending(PRODUCER, replace(SENT, operation=31, due_us=1_150_000_000)), 215.0),
        (lambda tap: tap.sent(PRODUCER, SENT, Phase.OK, None, None), QUIET),
    ],
    ids=["delivery", "longer lease", "server's lease", "handling", "handled", "acking", "acked", "sending",
         "delayed", "sent"],
)  # fmt: skip
def test_whatever_a_tap_reports_begins_the_wait_for_a_drain_again(
    fact: Callable[[Tap], Any], quiet: float, tap: Tap, recorder: Recorder, clock: Instants
) -> None:
    clock.now = 1_050.0
    fact(tap)
    poll(recorder, clock, 1_050.0 + quiet - 0.1)
    poll(recorder, clock, 1_050.0 + quiet)
    drains = [row for row in rows_of(recorder) if row["kind"] == "drain.ok"]
    assert [row["invoked_us"] for row in drains] == [round((1_050.0 + quiet) * 1e6)]


def test_an_event_of_a_delayed_send_begins_the_wait_by_its_delay(
    tap: Tap, recorder: Recorder, clock: Instants
) -> None:
    clock.now = 1_050.0
    recorder.observe(replace(asked(31), due_us=1_150_000_000))
    poll(recorder, clock, 1_264.9)
    poll(recorder, clock, 1_265.0)
    drains = [row for row in rows_of(recorder) if row["kind"] == "drain.ok"]
    assert [row["invoked_us"] for row in drains] == [1_265_000_000]


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        (received(), replace(LEASED, auto_renew=True)),
        (received(lite_topic="a"), LEASED),
    ],
    ids=["leases of unknown length", "lite topic"],
)
def test_messages_that_may_stay_behind_prevent_drains_for_ever(
    message: ReceivedMessage, answer: Answer, tap: Tap, recorder: Recorder, clock: Instants
) -> None:
    tap.delivered(CONSUMER, answer, 2, [message])
    tap.delivered(CONSUMER, LEASED, 3, [received()])
    poll(recorder, clock, 9_000.0)
    assert "drain.ok" not in {row["kind"] for row in rows_of(recorder)}
