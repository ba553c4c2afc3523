"""Cases that need what does not work are not judged, whichever way they come to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from aiorocketmq_conformance.blocks import Blocks, Step
from aiorocketmq_conformance.case import Case
from aiorocketmq_conformance.probe.traffic import Call
from aiorocketmq_conformance.runner import Run
from aiorocketmq_conformance.target import Target
from aiorocketmq_conformance.targets.interface import BrokerUnderTest
from aiorocketmq_conformance.verdicts import Blocked, Verdict

MakeCase = Callable[..., Case]
REASON = "probe of send failed: no disk left"


@pytest.fixture
def blocks() -> Blocks:
    blocks = Blocks()
    blocks.block(Step.SEND, REASON)
    return blocks


async def ends(broker: BrokerUnderTest, blocks: Blocks | None, case: Case) -> tuple[Verdict, str]:
    run = await Run([case], broker, blocks=blocks).finish()
    (result,) = run.results
    return result.verdict, result.detail


async def test_a_case_that_needs_a_blocked_step_ends(
    broker: BrokerUnderTest, make_case: MakeCase, blocks: Blocks
) -> None:
    async def sends(target: Target) -> None:
        target.require(Step.RECEIVE)
        target.note("received", True)
        target.require(Step.SEND)
        raise AssertionError("went on")

    assert await ends(broker, blocks, make_case(sends)) == (Verdict.BLOCKED, REASON)


async def test_a_failure_that_follows_from_a_block_is_blocked(
    broker: BrokerUnderTest, make_case: MakeCase, blocks: Blocks
) -> None:
    async def sends_beside(target: Target) -> None:
        async def send() -> None:
            target.require(Step.SEND)

        await asyncio.gather(asyncio.create_task(send()), return_exceptions=True)
        raise AssertionError("nothing came")

    assert await ends(broker, blocks, make_case(sends_beside)) == (Verdict.BLOCKED, REASON)


async def test_the_case_that_blocks_a_step_is_judged_and_later_ones_are_not(
    broker: BrokerUnderTest, make_case: MakeCase
) -> None:
    shown = asyncio.Event()

    async def shows(target: Target) -> None:
        target.require(Step.CHECK)
        target.block(Step.CHECK, "none came")
        shown.set()
        raise AssertionError("0 checks")

    async def ends_after(target: Target) -> None:
        target.require(Step.CHECK)
        await shown.wait()
        raise AssertionError("3 of 4 came")

    cases = [make_case(shows, "tx.a"), make_case(ends_after, "tx.b")]
    run = await Run(cases, broker, blocks=Blocks()).finish()
    assert [(one.verdict, one.detail) for one in run.results] == [
        (Verdict.FAIL, "0 checks"),
        (Verdict.BLOCKED, "none came"),
    ]


async def test_a_failure_after_an_own_call_of_the_step_is_blocked(
    broker: BrokerUnderTest, make_case: MakeCase, blocks: Blocks
) -> None:
    def calls(method: str) -> Case:
        async def run(target: Target) -> None:
            target.clock.traffic.begin(waits_for_time=False)
            target.clock.traffic.end(Call(method, "client", 0.0, 1.0, "FORBIDDEN"))
            raise AssertionError("broken")

        return make_case(run)

    assert await ends(broker, blocks, calls("SendMessage")) == (Verdict.BLOCKED, REASON)
    assert await ends(broker, blocks, calls("AckMessage")) == (Verdict.FAIL, "broken")


async def test_other_cases_are_judged_as_always(
    broker: BrokerUnderTest, make_case: MakeCase, blocks: Blocks
) -> None:
    async def fails(target: Target) -> None:
        raise AssertionError("broken")

    async def holds(target: Target) -> None:
        target.require(Step.RECEIVE)

    assert await ends(broker, blocks, make_case(fails)) == (Verdict.FAIL, "broken")
    assert await ends(broker, blocks, make_case(holds)) == (Verdict.PASS, "")


async def test_without_shared_blocks_every_case_is_judged_alone(
    broker: BrokerUnderTest, make_case: MakeCase
) -> None:
    async def blocks_and_needs(target: Target) -> None:
        target.require(Step.CHECK)
        target.block(Step.CHECK, "none came")

    cases = [make_case(blocks_and_needs, f"tx.n{n}") for n in range(2)]
    run = await Run(cases, broker, jobs=1).finish()
    assert [result.verdict for result in run.results] == [Verdict.PASS, Verdict.PASS]
    run = await Run(cases, broker, blocks=Blocks(), jobs=1).finish()
    assert [result.verdict for result in run.results] == [Verdict.PASS, Verdict.BLOCKED]
    assert run.blocked == ("none came",)


async def test_a_step_that_succeeded_is_not_blocked_again() -> None:
    blocks = Blocks()
    blocks.block(Step.CHECK, "none came")
    async with asyncio.timeout(5):
        await blocks.blocked(Step.CHECK)
    with pytest.raises(Blocked, match="none came"):
        blocks.require(Step.SEND, Step.CHECK)
    blocks.works(Step.CHECK)
    blocks.block(Step.CHECK, "none came")
    blocks.require(*Step)
    assert blocks.reasons == ()
