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
from aiorocketmq_conformance.demo.histories import Row, duration, group_waits, ladder, life
from aiorocketmq_conformance.demo.page import Card, JudgedCase, Shown, page
from aiorocketmq_conformance.demo.progress import Stage, Stages
from aiorocketmq_conformance.demo.scenario import BILLING, DESK, HELD, ORDER_COUNT, Played, Scenario, recorder
from aiorocketmq_conformance.demo.shared_queues import in_words
from aiorocketmq_conformance.results import EXIT_FAILED, EXIT_PASSED, EXIT_UNKNOWN, RunResult
from aiorocketmq_conformance.runner import Run
from aiorocketmq_conformance.targets.choice import choose

TARGETS = ("fake", "fake:apache-5.5")
AREAS = ("retry.*", "fifo.*", "push.*", "dlq.*", "delay.*", "tx.*")
"""What is judged here: the promises that the scene itself plays with. The command judges all of them."""
# Three rungs take 100 s; the killed consumer held its messages for 30 s.
RUNGS_BEFORE_THE_REST = 4


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says."""

    out: Path
    seed: int
    planted: str | None
    core: Callable[..., Broker]
    """The core of the fake: the real one, or one with the planted fault."""
    with_spark: bool
    with_conformance: bool


@dataclass(frozen=True, slots=True)
class Performance:
    """What came of it."""

    page: Path
    played: Played
    runs: Sequence[RunResult]
    audited: Audited | None

    @property
    def exit_code(self) -> int:
        """1 when any part found a broken promise, 3 when one could not say, else 0."""
        codes = {run.exit_code for run in self.runs} | ({self.audited.exit_code} if self.audited else set())
        return next((code for code in (EXIT_FAILED, EXIT_UNKNOWN) if code in codes), EXIT_PASSED)


async def perform(options: Options, stages: Stages) -> Performance:
    """Do everything; the page and all evidence are in `options.out` afterwards."""
    options.out.mkdir(parents=True, exist_ok=True)
    recording = options.out / "recording"
    with _logging_to(options.out / "demo.log"):
        played = await _play(options, recording, stages)
        async with asyncio.TaskGroup() as group:
            judging = group.create_task(_judge(options, stages))
            auditing = group.create_task(_audit(recording, options, stages))
    runs, audited = judging.result(), auditing.result()
    with stages.stage("the page") as stage:
        path = options.out / "index.html"
        path.write_text(_page(played, runs, audited, recording, options.planted), encoding="utf-8")
        stage.tell(str(path))
    return Performance(path, played, runs, audited)


async def _play(options: Options, recording: Path, stages: Stages) -> Played:
    async with FakeBroker(
        clock="manual", record=recording, seed=options.seed, core=options.core, remoting_port=0
    ) as broker:
        client_recorder = recorder(recording, broker)
        scenario = Scenario(broker, [client_recorder], random.Random(options.seed))
        played = scenario.played
        try:
            with stages.stage("fake broker") as stage:
                await scenario.prepare()
                stage.tell(f"{broker.endpoint}, virtual time")
            with stages.stage("Producer") as stage:
                await scenario.produce()
                stage.tell(f"{played.sent} messages: normal, FIFO, delayed")
            with stages.stage("PushConsumer") as stage:
                async with scenario.consumers():
                    await scenario.consume()
                    stage.tell(f"{played.handled} handled, one handler always fails")
                    with stages.stage("retry ladder") as rungs:
                        await _other_consumers(scenario, stages, rungs)
                        await scenario.climb(rungs.tell)
                        rungs.tell(
                            f"{played.attempts} attempts in {duration(played.virtual_seconds)} of virtual time, "
                            "then the dead letter"
                        )
        finally:
            client_recorder.close()
    return played


async def _other_consumers(scenario: Scenario, stages: Stages, rungs: Stage) -> None:
    with stages.stage("killed consumer") as stage:
        await scenario.hold_and_kill()
        stage.tell(f"killed while it held {len(scenario.played.held)} messages")
    with stages.stage("SimpleConsumer") as stage:
        await scenario.settle(ORDER_COUNT - HELD)
        stage.tell("waits for the leases of the killed consumer to end")
        await scenario.climb(rungs.tell, attempts=RUNGS_BEFORE_THE_REST)
        await scenario.settle(HELD)
        stage.tell("acknowledged all orders, those of the killed consumer too")
    with stages.stage("PullConsumer") as stage:
        await scenario.pull()
        stage.tell(f"read {scenario.played.pulled} orders by offset")
    with stages.stage("shared queues") as stage:
        await scenario.share()
        stage.tell(in_words(scenario.played.shares))


async def _judge(options: Options, stages: Stages) -> tuple[RunResult, ...]:
    if not options.with_conformance:
        return ()
    known = load()
    cases = known.select(AREAS, levels=[Level.MUST])
    results = []
    for target in TARGETS:
        with stages.stage(f"conformance of {target}") as stage:
            async with choose(target) as broker:
                expected = deviations.bundled(broker.deviations, known=known, today=date.today())
                run = Run(cases, broker, deviations=expected, on_result=_counting(stage, len(cases)))
                results.append(await run.finish())
            stage.tell(results[-1].headline)
    return tuple(results)


def _counting(stage: Stage, total: int) -> Callable[[object], None]:
    seen = 0

    def count(result: object) -> None:
        nonlocal seen
        seen += 1
        stage.tell(f"{seen} of {total} cases")

    return count


async def _audit(recording: Path, options: Options, stages: Stages) -> Audited | None:
    if not options.with_spark:
        return None
    with stages.stage("Spark audit") as stage:
        stage.tell("reading the recording")
        audited = await audit(recording, options.out / "audit")
        stage.tell(", ".join(f"{name}: {verdict}" for name, verdict, _ in audited.checks))
    return audited


def _page(
    played: Played, runs: Sequence[RunResult], audited: Audited | None, recording: Path, planted: str | None
) -> str:
    rows: list[Row] = parquet.read_table(recording).to_pylist()
    told = life(rows, message_id=played.poisoned, group=BILLING)
    return page(
        Shown(
            cards=_cards(played, runs, audited),
            told=told,
            rungs=ladder(told, group_waits(rows, BILLING)),
            shares=played.shares,
            other_lives=[life(rows, message_id=message_id, group=DESK) for message_id in played.held],
            judged=_judged(runs),
            audit=audited.checks if audited else (),
            audit_page="audit/report.html" if audited else None,
            planted=planted,
        )
    )


def _cards(played: Played, runs: Sequence[RunResult], audited: Audited | None) -> list[Card]:
    cards = [
        Card(str(played.sent), "messages sent: normal, FIFO and delayed"),
        Card(
            str(played.attempts),
            f"attempts of one message in {duration(played.virtual_seconds)} of virtual time",
        ),
        Card(str(len(played.held)), "messages given back after a consumer was killed"),
    ]
    for run in runs:
        mood = "bad" if run.exit_code == EXIT_FAILED else "good"
        cards.append(Card(run.headline.partition(",")[0], f"conformance cases on {run.target}", mood))
    if audited is not None:
        moods = {"valid": "good", "invalid": "bad"}
        cards.append(Card(audited.verdict, "says the Spark audit", moods.get(audited.verdict, "odd")))
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
    """Keep the packages' own log lines off the terminal; the failing handler fails seventeen times."""
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
