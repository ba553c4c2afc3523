"""`aiorocketmq conformance`: run cases against a broker, list them, explain one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from aiorocketmq_conformance.case import Case

LEVELS = ("M", "S", "X", "I")


@click.group()
def conformance() -> None:
    """Judge a broker by the executable specification of RocketMQ 5.

    Example: aiorocketmq conformance run --target fake
    """


@conformance.command()
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="TARGET",
    help="fake[:PROFILE], HOST:PORT, apache:VERSION[:cluster], docker:IMAGE[:TAG]; may be repeated. Default: fake.",
)
@click.option(
    "--select",
    "patterns",
    multiple=True,
    metavar="GLOB",
    help="Only cases whose id matches; may be repeated.",
)
@click.option("--level", "levels", metavar="M,S,X,I", default="", help="Only cases of these levels.")
@click.option(
    "--namesrv",
    metavar="ADDRESS",
    help="Name server or broker of a HOST:PORT target, to create topics: namesrv://HOST:PORT or broker://HOST:PORT.",
)
@click.option(
    "--control",
    metavar="HOST:PORT",
    help="Control service of a fake at HOST:PORT, to create topics and groups.",
)
@click.option(
    "--create-topics",
    type=click.Choice(["auto"]),
    help="auto: the HOST:PORT target creates topics and groups at first use; other cases are not applicable.",
)
@click.option(
    "--declared",
    metavar="NAME",
    default="apache-5.5",
    show_default=True,
    help="Declaration of a HOST:PORT target: documented, apache-5.5, apache-5.5-cluster or apache-5.3.",
)
@click.option(
    "--deviations",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File of known deviations, instead of the suite's own.",
)
@click.option("--jobs", type=click.IntRange(1, 200), help="Concurrent cases. Default: by target.")
@click.option(
    "--budget",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="End the run after this time; the rest is reported as not run.",
)
@click.option(
    "--report",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write result.json, junit.xml and report.html to this directory.",
)
@click.option(
    "--record",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write a recording of every case to this directory, for aiorocketmq audit.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the result as JSON on standard output, and everything else on standard error.",
)
@click.option(
    "--verbose", "-v", is_flag=True, help="Print a line for every case, not only for those that did not pass."
)
def run(
    targets: tuple[str, ...],
    patterns: tuple[str, ...],
    levels: str,
    namesrv: str | None,
    control: str | None,
    create_topics: str | None,
    declared: str,
    deviations: Path | None,
    jobs: int | None,
    budget: float | None,
    report: Path | None,
    record: Path | None,
    as_json: bool,
    verbose: bool,
) -> None:
    """Run cases against a target and end with a line `N passed, N failed, N skipped`.

    First, one message is sent, received and acknowledged. If one of these steps fails, cases that need it are not
    run.

    Exit code 0: no case failed; 1: a case or one of these steps failed; 3: no verdict possible; 4: the target
    could not be reached or started.

    Example: aiorocketmq conformance run --target apache:5.5.0 --select 'fifo.*' --report out
    """
    from aiorocketmq.wire.grpcio_settings import grpcio_settings

    # Cases break connections on purpose; grpcio's log of that would look like an error of the run.
    with grpcio_settings():
        import grpc.aio  # noqa: F401
    from aiorocketmq_conformance.command import RunOptions, run_command

    options = RunOptions(
        targets=targets or ("fake",),
        cases=tuple(_selected(patterns, levels)),
        namesrv=namesrv,
        control=control,
        create_topics=create_topics,
        declared=declared,
        deviations=deviations,
        jobs=jobs,
        budget=budget,
        report=report,
        record=record,
        as_json=as_json,
        verbose=verbose,
    )
    raise click.exceptions.Exit(run_command(options))


@conformance.command()
@click.option(
    "--target",
    metavar="TARGET",
    default="fake",
    show_default=True,
    help="fake[:PROFILE], HOST:PORT, apache:VERSION[:cluster].",
)
@click.option(
    "--seed", type=click.IntRange(min=0), help="Seed of the histories. Default: a random one, printed."
)
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Execute histories for so long.",
)
@click.option("--histories", type=click.IntRange(min=1), metavar="N", help="Execute at most N histories.")
@click.option(
    "--history", type=click.IntRange(min=0), metavar="K", help="Execute history K of the seed again, alone."
)
@click.option("--steps", metavar="A,B,C", help="Only these steps of it, `none` for none.")
@click.option(
    "--namesrv", metavar="HOST:PORT", help="Name server of a HOST:PORT target, to create topics and groups."
)
@click.option(
    "--declared",
    metavar="NAME",
    default="apache-5.5",
    show_default=True,
    help="Declaration of a HOST:PORT target.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    help="Histories at a time. Default: 8; on a fake one for each core, each in a process.",
)
@click.option(
    "--report",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write exploration.json and exploration.txt to this directory.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on standard output.")
def explore(
    target: str,
    seed: int | None,
    minutes: float,
    histories: int | None,
    history: int | None,
    steps: str | None,
    namesrv: str | None,
    declared: str,
    jobs: int | None,
    report: Path | None,
    as_json: bool,
) -> None:
    """Execute random histories of calls and judge each response by the reference model.

    Ends at the first history with a response that the model does not allow: steps that it does not need are left out,
    and the rest is printed as a time line with the command that replays it.

    Exit code 0: every response was allowed; 1: one was not; 3: nothing was executed; 4: the target could not be
    reached or started, or a process was killed.

    Example: aiorocketmq conformance explore --target fake --seed 7 --minutes 5
    """
    import secrets

    from aiorocketmq.wire.grpcio_settings import grpcio_settings

    with grpcio_settings():
        import grpc.aio  # noqa: F401
    from aiorocketmq_conformance.explore.command import ExploreOptions, explore_command

    if history is not None and seed is None:
        raise click.UsageError("--history needs the --seed that it belongs to")
    if steps is not None and history is None:
        raise click.UsageError("--steps needs the --history that they belong to")
    options = ExploreOptions(
        target=target,
        seed=secrets.randbelow(1_000_000) if seed is None else seed,
        minutes=minutes,
        histories=histories,
        history=history,
        steps=None if steps is None else _numbers(steps),
        namesrv=namesrv,
        declared=declared,
        jobs=jobs,
        report=report,
        as_json=as_json,
    )
    raise click.exceptions.Exit(explore_command(options))


def _numbers(text: str) -> tuple[int, ...]:
    if text == "none":
        return ()
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise click.UsageError(f"--steps must be numbers with commas between them, got {text!r}") from None


@conformance.command(name="list")
@click.option("--select", "patterns", multiple=True, metavar="GLOB", help="Only cases whose id matches.")
@click.option("--level", "levels", metavar="M,S,X,I", default="", help="Only cases of these levels.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def list_cases(patterns: tuple[str, ...], levels: str, as_json: bool) -> None:
    """List cases: id, level, claim.

    Example: aiorocketmq conformance list --select 'send.*' --level M
    """
    import json

    cases = _selected(patterns, levels)
    if as_json:
        click.echo(json.dumps([_facts(case) for case in cases], ensure_ascii=False, indent=2))
        return
    width = max(len(case.id) for case in cases)
    for case in cases:
        click.echo(f"{case.id:<{width}}  {case.level.value}  {case.claim}")
    click.echo(f"{len(cases)} cases")


@conformance.command()
@click.argument("case_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def explain(case_id: str, as_json: bool) -> None:
    """Show the claim, the rules and the needs of one case.

    Example: aiorocketmq conformance explain simple.ack-late
    """
    import json

    (first, *more) = _selected((case_id,), "")
    if as_json:
        click.echo(json.dumps([_facts(case) for case in (first, *more)], ensure_ascii=False, indent=2))
        return
    for case in (first, *more):
        click.echo(case.id)
        for name, value in _facts(case).items():
            shown = ", ".join(map(str, value)) if isinstance(value, list) else value
            if name != "id" and shown:
                click.echo(f"  {name:<8} {shown}")


def _facts(case: Case) -> dict[str, object]:
    return {
        "id": case.id,
        "claim": case.claim,
        "level": case.level.value,
        "rules": list(case.rules),
        "needs": list(case.needs),
        "timeout": case.timeout,
    }


def _selected(patterns: tuple[str, ...], levels: str) -> list[Case]:
    from aiorocketmq_conformance.case import Level, load

    selected = [letter.strip().upper() for letter in levels.split(",") if letter.strip()]
    for letter in selected:
        if letter not in LEVELS:
            raise click.UsageError(f"level must be one of {', '.join(LEVELS)}, got {letter!r}")
    cases = load().select(patterns, map(Level, selected))
    if not cases:
        raise click.UsageError("no case matches; `aiorocketmq conformance list` prints all of them")
    return cases
