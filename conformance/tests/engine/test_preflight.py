"""The three probes before a run, on fakes with one fault each."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiorocketmq_conformance.blocks import Blocks, Step
from aiorocketmq_conformance.case import load
from aiorocketmq_conformance.preflight import ROUNDS, preflight
from aiorocketmq_conformance.targets.address import AddressBroker
from aiorocketmq_conformance.targets.choice import choose
from aiorocketmq_fake import FakeBroker

CASES = load().select(["send.receipt"])
REFUSED = "FORBIDDEN: not today"


@pytest.fixture
async def fake() -> AsyncIterator[FakeBroker]:
    async with FakeBroker(control="127.0.0.1:0") as fake:
        yield fake


async def probed(fake: FakeBroker) -> Blocks:
    broker = choose(fake.endpoint, control=fake.control_endpoint, declared="documented")
    assert isinstance(broker, AddressBroker)
    async with broker:
        return await preflight(broker, CASES)


async def test_nothing_is_blocked_if_everything_works(fake: FakeBroker) -> None:
    assert (await probed(fake)).reasons == ()
    assert fake.topics(), "nothing was probed"


@pytest.mark.parametrize(
    ("rpc", "step", "begin"),
    [
        ("SendMessage", Step.SEND, "probe of send failed: send was answered with "),
        ("ReceiveMessage", Step.RECEIVE, "probe of receive failed: receive was answered with "),
        (
            "AckMessage",
            Step.ACKNOWLEDGE,
            "probe of acknowledgement failed: ack of unexpired handles was answered with ",
        ),
    ],
)
async def test_a_refused_step_is_blocked_with_the_servers_text(
    fake: FakeBroker, rpc: str, step: Step, begin: str
) -> None:
    fake.faults.refuse(rpc, "FORBIDDEN", "not today")
    blocks = await probed(fake)
    assert [each for each in Step if blocks.reason(each)] == [step]
    assert blocks.reason(step).startswith(begin + REFUSED)


async def test_topics_that_cannot_be_created_block_what_needs_them(fake: FakeBroker) -> None:
    fake.faults.refuse("SendMessage", "FORBIDDEN", "not today")
    async with choose(fake.endpoint, create_topics="auto") as broker:
        blocks = await preflight(broker, CASES)
    assert blocks.reasons == (f"probe of topic creation failed: send was answered with {REFUSED}",)


async def test_a_single_refusal_blocks_nothing(fake: FakeBroker) -> None:
    fake.faults.refuse("AckMessage", "INTERNAL_SERVER_ERROR", times=ROUNDS - 1)
    assert (await probed(fake)).reasons == ()


async def test_nothing_is_probed_for_cases_without_topics(fake: FakeBroker) -> None:
    async with choose(fake.endpoint, control=fake.control_endpoint) as broker:
        await preflight(broker, load().select(["life.sdk-start-missing"]))
    assert fake.topics() == ()


async def test_a_target_without_topic_creation_is_not_probed(fake: FakeBroker) -> None:
    async with choose(fake.endpoint) as broker:
        assert (await preflight(broker, CASES)).reasons == ()
