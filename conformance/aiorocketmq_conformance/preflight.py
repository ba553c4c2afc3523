"""Probes before a run: one message is sent, received and acknowledged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from aiorocketmq_conformance.blocks import Blocks, Step
from aiorocketmq_conformance.case import Case, Level
from aiorocketmq_conformance.consumer import LEASE, SHORT_POLL, Consumer, check_served
from aiorocketmq_conformance.execution import execute, one_line
from aiorocketmq_conformance.fixture import open_fixture
from aiorocketmq_conformance.target import Target
from aiorocketmq_conformance.targets.interface import BrokerUnderTest
from aiorocketmq_conformance.verdicts import NotApplicable, Verdict

ROUNDS = 2
"""A step is blocked if it fails in all of these rounds: a busy server may refuse a single call."""
TIMEOUT = 60.0
"""Seconds of the target's clock for one round."""
NEEDS = ("@topic", "@group")


async def preflight(broker: BrokerUnderTest, cases: Iterable[Case]) -> Blocks:
    """Probe a broker, and return the steps that fail there, each with the server's text.

    Nothing is probed if no case needs a topic, or if topics cannot be created.
    """
    failures: dict[Step, str] = {}
    if any("@topic" in case.needs for case in cases):
        for _ in range(ROUNDS):
            failures = await _round(broker)
            if not failures:
                break
    blocks = Blocks()
    for step, text in failures.items():
        blocks.block(step, f"probe of {step.value} failed: {text}")
    return blocks


async def _round(broker: BrokerUnderTest) -> dict[Step, str]:
    """Probe once; return failures by step."""
    probe = _Probe()
    case = Case("probe.all", (), Level.MUST, NEEDS, "A message is stored and delivered.", TIMEOUT, probe.run)
    outcome = await execute(case, broker)
    if outcome.verdict in {Verdict.FAIL, Verdict.ERROR}:
        probe.failures.setdefault(probe.step, outcome.detail)
    return probe.failures


class _Probe:
    """One round, which continues after failures if possible."""

    def __init__(self) -> None:
        self.step = Step.PREPARE
        self.failures: dict[Step, str] = {}

    async def run(self, target: Target) -> None:
        async with open_fixture(target) as fixture:
            consumer: Consumer | None = None
            with self._probing(Step.PREPARE):
                topic, group = await fixture.topic(), await target.create_group()
            if self.failures:
                return
            with self._probing(Step.RECEIVE):
                # Before anything is sent: a new group may start at the end (inventory O3).
                consumer = await fixture.consumer(topic, group=group, prime=False)
                check_served(await consumer.receive(poll=SHORT_POLL, invisible=LEASE))
            with self._probing(Step.SEND):
                await fixture.send(topic, "probe")
            if self.failures or consumer is None:
                return
            with self._probing(Step.RECEIVE):
                (delivery, *_) = await consumer.take(1, settle=False)
            if not self.failures:
                with self._probing(Step.ACKNOWLEDGE):
                    await consumer.ack(delivery)

    @contextmanager
    def _probing(self, step: Step) -> Iterator[None]:
        """Record an error of the block as failure of `step`; NotApplicable propagates."""
        self.step = step
        try:
            yield
        except NotApplicable:
            raise
        except Exception as error:
            # Boundary of a probe: any error of an unknown server is to be reported.
            self.failures[step] = one_line(error)
