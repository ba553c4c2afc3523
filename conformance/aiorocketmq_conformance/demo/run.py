"""The whole demonstration in order: play, judge, audit, and write the page."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pyarrow.parquet as parquet
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.broker import Broker

from aiorocketmq_conformance import deviations
from aiorocketmq_conformance.case import Level, load
from aiorocketmq_conformance.demo.audit import Audited, audit
from aiorocketmq_conformance.demo.histories import Row, duration, group_waits, history_of, retries_of
from aiorocketmq_conformance.demo.page import Card, JudgedCase, PageContent, page
from aiorocketmq_conformance.demo.progress import Progress, ProgressStep
from aiorocketmq_conformance.demo.scenario import (
    BILLING,
    DESK,
    HELD,
    ORDER_COUNT,
    Scenario,
    Summary,
    recorder,
)
from aiorocketmq_conformance.demo.shared_queues import describe_shares
from aiorocketmq_conformance.results import EXIT_FAILED, EXIT_PASSED, EXIT_UNKNOWN, RunResult
from aiorocketmq_conformance.runner import Run
from aiorocketmq_conformance.targets.choice import choose

TARGETS = ("fake", "fake:apache-5.5")
AREAS = ("retry.*", "fifo.*", "push.*", "dlq.*", "delay.*", "tx.*")
"""Cases about the promises that the scenario uses. The command runs all cases."""
# Three retries take 100 s; the leases of the killed consumer 30 s.
ATTEMPTS_BEFORE_OTHERS = 4


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the command line."""

    out: Path
    seed: int
    planted: str | None
    core: Callable[..., Broker]
    """The core of the fake: the real one, or one with the injected fault."""
    with_spark: bool
    with_conformance: bool


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The result."""

    page: Path
    summary: Summary
    runs: Sequence[RunResult]
    audited: Audited | None

    @property
    def exit_code(self) -> int:
        """1 if any part found a broken promise, 3 if one had no verdict, else 0."""
        codes = {run.exit_code for run in self.runs} | ({self.audited.exit_code} if self.audited else set())
        return next((code for code in (EXIT_FAILED, EXIT_UNKNOWN) if code in codes), EXIT_PASSED)


async def run_demo(options: Options, progress: Progress) -> DemoResult:
    """Run all parts; the page and all evidence are in `options.out` afterwards."""
    options.out.mkdir(parents=True, exist_ok=True)
    recording = options.out / "recording"
    with _logging_to(options.out / "demo.log"):
        summary = await _play(options, recording, progress)
        async with asyncio.TaskGroup() as group:
            judging = group.create_task(_judge(options, progress))
            auditing = group.create_task(_audit(recording, options, progress))
    runs, audited = judging.result(), auditing.result()
    path = options.out / "index.html"
    path.write_text(_page(summary, runs, audited, recording, options.planted), encoding="utf-8")
    return DemoResult(path, summary, runs, audited)


async def _play(options: Options, recording: Path, progress: Progress) -> Summary:
    async with FakeBroker(
        clock="manual", record=recording, seed=options.seed, core=options.core, remoting_port=0
    ) as broker:
        client_recorder = recorder(recording, broker)
        scenario = Scenario(broker, [client_recorder], random.Random(options.seed))
        summary = scenario.summary
        try:
            with progress.step("fake broker") as step:
                await scenario.prepare()
                step.update(f"{broker.endpoint}, virtual time")
            with progress.step("Producer") as step:
                await scenario.produce()
                step.update(f"{summary.sent} messages: normal, FIFO, delayed")
            with progress.step("PushConsumer") as step:
                async with scenario.consumers():
                    await scenario.consume()
                    step.update(f"{summary.handled} handled, one handler always fails")
                    with progress.step("retries") as retries:
                        await _other_consumers(scenario, progress, retries)
                        await scenario.advance_retries(retries.update)
                        retries.update(
                            f"{summary.attempts} attempts in {duration(summary.virtual_seconds)} of virtual time, "
                            "then the dead letter"
                        )
        finally:
            client_recorder.close()
    return summary


async def _other_consumers(scenario: Scenario, progress: Progress, retries: ProgressStep) -> None:
    with progress.step("killed consumer") as step:
        await scenario.kill_consumer()
        step.update(f"killed with {len(scenario.summary.held)} messages in flight")
    with progress.step("SimpleConsumer") as step:
        await scenario.settle(ORDER_COUNT - HELD)
        step.update("waits until the leases of the killed consumer expire")
        await scenario.advance_retries(retries.update, attempts=ATTEMPTS_BEFORE_OTHERS)
        await scenario.settle(HELD)
        step.update("acknowledged all orders, including those of the killed consumer")
    with progress.step("PullConsumer") as step:
        await scenario.pull()
        step.update(f"read {scenario.summary.pulled} orders by offset")
    with progress.step("shared queues") as step:
        await scenario.share()
        step.update(describe_shares(scenario.summary.shares))


async def _judge(options: Options, progress: Progress) -> tuple[RunResult, ...]:
    if not options.with_conformance:
        return ()
    registry = load()
    cases = registry.select(AREAS, levels=[Level.MUST])
    results = []
    for target in TARGETS:
        with progress.step(f"conformance of {target}") as step:
            async with choose(target) as broker:
                expected = deviations.bundled(broker.deviations, known=registry, today=date.today())
                run = Run(cases, broker, deviations=expected, on_result=_counting(step, len(cases)))
                results.append(await run.finish())
            failed = [each.case.id for each in results[-1].results if each.verdict.fails_the_run]
            step.update(results[-1].headline + (f" ({', '.join(failed)})" if failed else ""))
    return tuple(results)


def _counting(step: ProgressStep, total: int) -> Callable[[object], None]:
    finished = 0

    def count(result: object) -> None:
        nonlocal finished
        finished += 1
        step.update(f"{finished} of {total} cases")

    return count


async def _audit(recording: Path, options: Options, progress: Progress) -> Audited | None:
    if not options.with_spark:
        return None
    with progress.step("Spark audit") as step:
        step.update("reading the recording")
        audited = await audit(recording, options.out / "audit")
        step.update(", ".join(f"{name}: {verdict}" for name, verdict, _ in audited.checks))
    return audited


def _page(
    summary: Summary, runs: Sequence[RunResult], audited: Audited | None, recording: Path, planted: str | None
) -> str:
    rows: list[Row] = parquet.read_table(recording).to_pylist()
    history = history_of(rows, message_id=summary.failing, group=BILLING)
    return page(
        PageContent(
            cards=_cards(summary, runs, audited),
            history=history,
            retries=retries_of(history, group_waits(rows, BILLING)),
            shares=summary.shares,
            leased_histories=[
                history_of(rows, message_id=message_id, group=DESK) for message_id in summary.held
            ],
            judged=_judged(runs),
            audit=audited.checks if audited else (),
            audit_page="audit/report.html" if audited else None,
            planted=planted,
        )
    )


def _cards(summary: Summary, runs: Sequence[RunResult], audited: Audited | None) -> list[Card]:
    cards = [
        Card(str(summary.sent), "messages sent: normal, FIFO and delayed"),
        Card(
            str(summary.attempts),
            f"attempts of one message in {duration(summary.virtual_seconds)} of virtual time",
        ),
        Card(str(len(summary.held)), "messages redelivered after a consumer was killed"),
    ]
    for run in runs:
        mood = "bad" if run.exit_code == EXIT_FAILED else "good"
        cards.append(Card(run.headline.partition(",")[0], f"conformance cases on {run.target}", mood))
    if audited is not None:
        moods = {"valid": "good", "invalid": "bad"}
        cards.append(Card(audited.verdict, "by the Spark audit", moods.get(audited.verdict, "odd")))
    return cards


def _judged(runs: Sequence[RunResult]) -> Mapping[str, Sequence[JudgedCase]]:
    return {
        run.target: [
            JudgedCase(result.case.id, result.case.claim, result.verdict.value) for result in run.results
        ]
        for run in runs
    }


@contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    """Keep log lines off the terminal: the failing handler fails seventeen times."""
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    loggers = [
        logging.getLogger(name) for name in ("aiorocketmq", "aiorocketmq_fake", "aiorocketmq_conformance")
    ]
    before = [logger.propagate for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, propagate in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.propagate = propagate
        handler.close()
