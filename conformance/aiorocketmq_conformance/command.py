"""Implementation of `aiorocketmq conformance run`: run cases against each target, print and write the results."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import click
from aiorocketmq.wire.plain_text import plain
from rich.console import Console
from rich.text import Text

from aiorocketmq_conformance import deviations
from aiorocketmq_conformance.case import Case, load
from aiorocketmq_conformance.preflight import preflight
from aiorocketmq_conformance.reports.files import result_json, write_reports
from aiorocketmq_conformance.reports.terminal import print_blocked, print_causes, print_result, print_summary
from aiorocketmq_conformance.results import EXIT_FAILED, EXIT_PASSED, EXIT_UNKNOWN, CaseResult, RunResult
from aiorocketmq_conformance.runner import Run
from aiorocketmq_conformance.targets.choice import InvalidTargetError, choose
from aiorocketmq_conformance.targets.interface import BrokerUnderTest, TargetUnavailableError
from aiorocketmq_conformance.verdicts import Verdict

EXIT_UNAVAILABLE = 4
_STOPPING = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of the command line."""

    targets: tuple[str, ...]
    cases: tuple[Case, ...]
    namesrv: str | None = None
    control: str | None = None
    create_topics: str | None = None
    declared: str = "apache-5.5"
    deviations: Path | None = None
    jobs: int | None = None
    budget: float | None = None
    report: Path | None = None
    record: Path | None = None
    as_json: bool = False
    verbose: bool = False


def run_command(options: RunOptions) -> int:
    """Run on every target in turn and return the exit code; click.UsageError for an invalid target."""
    # Cases that start clients without a server make the client library log warnings, which are expected.
    logging.getLogger("aiorocketmq").addHandler(logging.NullHandler())
    # Standard output is reserved for JSON.
    console = Console(stderr=options.as_json)
    try:
        brokers = [
            choose(
                spec,
                namesrv=options.namesrv,
                control=options.control,
                create_topics=options.create_topics,
                declared=options.declared,
                record=options.record,
            )
            for spec in options.targets
        ]
        deviations_of = [_deviations(broker, options.deviations) for broker in brokers]
    except (InvalidTargetError, deviations.InvalidDeviationsError) as error:
        raise click.UsageError(str(error)) from error
    except TargetUnavailableError as error:
        return _unavailable(error)
    runs: list[RunResult] = []
    for broker, expected in zip(brokers, deviations_of, strict=True):
        try:
            runs.append(asyncio.run(_run(broker, expected, options, console)))
        except TargetUnavailableError as error:
            return _unavailable(error)
    if options.report is not None:
        write_reports(options.report, runs)
    print_summary(console, runs)
    for run in runs:
        print_causes(console, run)
    if options.report is not None:
        console.print(f"reports: {options.report / 'report.html'}", soft_wrap=True, highlight=False)
    if options.as_json:
        sys.stdout.write(result_json(runs))
    for run in runs:
        prefix = f"{run.target}: " if len(runs) > 1 else ""
        console.print(f"{prefix}{run.headline}", highlight=False)
    return _worst(run.exit_code for run in runs)


def _unavailable(error: TargetUnavailableError) -> int:
    print(f"aiorocketmq: {plain(error)}", file=sys.stderr)
    return EXIT_UNAVAILABLE


def _worst(codes: Iterable[int]) -> int:
    distinct = set(codes)
    return next((code for code in (EXIT_FAILED, EXIT_UNKNOWN) if code in distinct), EXIT_PASSED)


def _deviations(broker: BrokerUnderTest, file: Path | None) -> Mapping[str, deviations.Deviation]:
    cases, today = load(), date.today()
    if file is not None:
        return deviations.read(file, known=cases, today=today)
    return deviations.bundled(broker.deviations, known=cases, today=today)


async def _run(
    broker: BrokerUnderTest,
    expected: Mapping[str, deviations.Deviation],
    options: RunOptions,
    console: Console,
) -> RunResult:
    # Drawn on terminals only; as Text, since a target may hold what would be parsed as markup.
    status, judged = console.status(Text(f"starting {broker.spec}")), 0

    def show(result: CaseResult) -> None:
        nonlocal judged
        judged += 1
        status.update(Text(f"{judged} of {len(options.cases)} cases"))
        quiet = {Verdict.PASS, Verdict.NOT_APPLICABLE, Verdict.BLOCKED}
        if options.verbose or result.verdict not in quiet:
            print_result(console, result)

    console.print(f"[bold]{broker.spec}[/]: {len(options.cases)} cases", highlight=False)
    async with AsyncExitStack() as opened:
        if not options.as_json:
            opened.enter_context(status)
        await opened.enter_async_context(broker)
        status.update(Text(f"probing {broker.spec}"))
        blocks = await preflight(broker, options.cases)
        print_blocked(console, blocks.reasons)
        run = Run(
            options.cases, broker, deviations=expected, blocks=blocks, jobs=options.jobs, on_result=show
        )
        loop = asyncio.get_running_loop()
        # Ctrl-C ends the run with partial results; if loops have no signal handlers (Windows) it ends the program.
        with suppress(NotImplementedError):
            for number in _STOPPING:
                loop.add_signal_handler(number, run.stop)
        try:
            return await run.finish(budget=options.budget)
        finally:
            with suppress(NotImplementedError):
                for number in _STOPPING:
                    loop.remove_signal_handler(number)
