"""The ledger of a soak distinguishes losses and unexplained repetitions from kept promises."""

from __future__ import annotations

import pytest
from aiorocketmq import Message, Producer
from aiorocketmq_fake import FakeBroker

from tools.soak.ledger import Ledger


@pytest.fixture
def ledger() -> Ledger:
    return Ledger({"orders": ("billing", "audit")})


def test_what_was_promised_to_a_group_and_not_handled_by_it_is_lost(ledger: Ledger) -> None:
    ledger.promised("orders", "1")
    ledger.handled("billing", "1")
    assert ledger.balance().lost == (("audit", "1"),)
    ledger.handled("audit", "1")
    assert ledger.balance().is_kept


def test_what_a_group_gave_up_is_not_lost_when_somebody_reads_it(ledger: Ledger) -> None:
    ledger.promised("orders", "1")
    ledger.handled("audit", "1")
    ledger.buried("billing", "1")
    assert ledger.balance().is_kept
    assert ledger.balance().buried == 1


def test_a_repetition_without_a_reason_is_not_explained(ledger: Ledger) -> None:
    ledger.handled("billing", "1")
    ledger.handled("billing", "1")
    balance = ledger.balance()
    assert balance.unexplained == (("billing", "1"),)
    assert not balance.is_kept


def test_what_a_transaction_took_back_may_not_be_handled(ledger: Ledger) -> None:
    ledger.withdrawn("1")
    assert ledger.balance().is_kept
    ledger.handled("billing", "1")
    assert ledger.balance().withdrawn == (("billing", "1"),)


def test_work_without_success_has_a_wait() -> None:
    now = 0.0
    ledger = Ledger({"orders": ("billing", "audit"), "unused": ("idle",)}, lambda: now)
    ledger.start_timing(["orders"])
    now = 4.0
    ledger.handled("billing", "1")
    now = 5.0
    ledger.stop_timing()
    assert ledger.longest_waits == {
        "send to orders": 5.0,
        "handle for billing": 4.0,
        "handle for audit": 5.0,
    }


async def test_the_brokers_own_events_explain_repetitions(ledger: Ledger) -> None:
    async with FakeBroker(clock="manual") as broker:
        await broker.create_topic("orders")
        with broker.events.listen(ledger.watch), broker.faults.duplicate("SendMessage", times=1):
            async with Producer(broker.endpoint) as producer:
                receipt = await producer.send(Message("orders", b"x"))
    ledger.handled("billing", receipt.message_id)
    ledger.handled("billing", receipt.message_id)
    assert ledger.balance().repeated == {"stored more than once": 1}
    ledger.handled("billing", receipt.message_id)
    assert ledger.balance().unexplained == (("billing", receipt.message_id),)
