"""Implementation of `aiorocketmq conformance explore`."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from os import cpu_count
from pathlib import Path

import click
from aiorocketmq.wire.plain_text import plain
from anyio import BrokenWorkerProcess
from rich.console import Console

from aiorocketmq_conformance.explore.exploration import Exploration, Explorer
from aiorocketmq_conformance.probe.clock import SettlingLoop
from aiorocketmq_conformance.results import EXIT_FAILED, EXIT_PASSED, EXIT_UNKNOWN
from aiorocketmq_conformance.targets.choice import InvalidTargetError, choose
from aiorocketmq_conformance.targets.interface import BrokerUnderTest, TargetUnavailableError

EXIT_UNAVAILABLE = 4
JOBS_ON_SERVERS = 8
"""Histories at a time on a real server: most of the time they wait."""
PROGRESS = 10.0
"""Seconds between two lines of progress."""
_STOPPING = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class ExploreOptions:
    """The options of the command line."""

    target: str
    seed: int
    minutes: float
    histories: int | None = None
    history: int | None = None
    steps: tuple[int, ...] | None = None
    namesrv: str | None = None
    declared: str = "apache-5.5"
    jobs: int | None = None
    report: Path | None = None
    as_json: bool = False


def explore_command(options: ExploreOptions) -> int:
    """Explore a target and return the exit code; click.UsageError for an invalid target."""
    logging.getLogger("aiorocketmq").addHandler(logging.NullHandler())
    console = Console(stderr=True)
    try:
        broker = choose(options.target, namesrv=options.namesrv, declared=options.declared, driven=True)
    except InvalidTargetError as error:
        raise click.UsageError(str(error)) from error
    try:
        with asyncio.Runner(loop_factory=SettlingLoop) as runner:
            result = runner.run(_explore(broker, options, console))
    except TargetUnavailableError as error:
        print(f"aiorocketmq: {plain(error)}", file=sys.stderr)
        return EXIT_UNAVAILABLE
    except BrokenWorkerProcess:
        print("aiorocketmq: a process of the explorer was killed: pass --jobs 1 to use none", file=sys.stderr)
        return EXIT_UNAVAILABLE
    text = _text(result, options)
    if options.report is not None:
        options.report.mkdir(parents=True, exist_ok=True)
        (options.report / "exploration.json").write_text(result_json(result, options), encoding="utf-8")
        (options.report / "exploration.txt").write_text(text, encoding="utf-8")
    sys.stdout.write(result_json(result, options) if options.as_json else text)
    if result.failure is not None:
        return EXIT_FAILED
    return EXIT_PASSED if result.histories else EXIT_UNKNOWN


async def _explore(broker: BrokerUnderTest, options: ExploreOptions, console: Console) -> Exploration:
    last = 0.0

    def report(result: Exploration) -> None:
        nonlocal last
        if result.seconds < last + PROGRESS and result.failure is None:
            return
        last = result.seconds
        rate = result.operations / result.seconds if result.seconds else 0.0
        line = f"{result.histories} histories, {result.operations} calls, {rate:.0f} a second"
        console.print(line, highlight=False)

    console.print(f"[bold]{broker.spec}[/]: seed {options.seed}", highlight=False)
    async with broker:
        explorer = Explorer(broker, options.seed, on_history=report)
        loop = asyncio.get_running_loop()
        # Ctrl-C ends the run with what was explored so far.
        with suppress(NotImplementedError):
            for number in _STOPPING:
                loop.add_signal_handler(number, explorer.stop)
        if options.history is not None:
            return await explorer.replay(options.history, options.steps)
        jobs = options.jobs or (cpu_count() or 1 if explorer.is_virtual else JOBS_ON_SERVERS)
        await explorer.explore(seconds=options.minutes * 60.0, histories=options.histories, jobs=jobs)
        if explorer.result.failure is not None:
            console.print("not allowed; leaving out steps", highlight=False)
            await explorer.shrink()
        return explorer.result


def command_of(result: Exploration, options: ExploreOptions) -> str:
    """Return the command that replays a failure."""
    assert result.failure is not None
    plan = result.failure.plan
    where = f" --namesrv {options.namesrv} --declared {options.declared}" if options.namesrv else ""
    steps = ",".join(str(step.number) for step in plan.steps)
    return (
        f"aiorocketmq conformance explore --target {options.target}{where} --seed {result.seed}"
        f" --history {plan.number} --steps {steps or 'none'}"
    )


def _text(result: Exploration, options: ExploreOptions) -> str:
    rate = result.operations / result.seconds if result.seconds else 0.0
    head = (
        f"{result.target}: seed {result.seed}, {result.histories} histories, {result.operations} calls"
        f" in {result.seconds:.1f} s ({rate:.0f} a second)"
    )
    if result.failure is None:
        return f"{head}\nno response that the model does not allow\n"
    failure = result.failure
    about = f"history {failure.plan.number} is not allowed; {len(failure.plan.steps)} of its steps are left"
    return "\n".join([head, about, "", *failure.lines, "", f"replay: {command_of(result, options)}", ""])


def result_json(result: Exploration, options: ExploreOptions) -> str:
    """Return the result as JSON."""
    values: dict[str, object] = {
        "target": result.target,
        "seed": result.seed,
        "histories": result.histories,
        "calls": result.operations,
        "seconds": round(result.seconds, 3),
        "failure": None,
    }
    if (failure := result.failure) is not None:
        values["failure"] = {
            "history": failure.plan.number,
            "steps": [_plain(asdict(step)) for step in failure.plan.steps],
            "violations": [
                {"rule": each.rule, "text": each.text, "message": each.message, "at": round(each.at.at, 6)}
                for each in failure.violations
            ],
            "timeline": list(failure.lines),
            "replay": command_of(result, options),
        }
    return json.dumps(values, ensure_ascii=False, indent=2) + "\n"


def _plain(step: Mapping[str, object]) -> Sequence[object]:
    return [step["number"], step["kind"], step["values"]]
