"""The command `aiorocketmq audit`: options, what is printed, and the exit code."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aiorocketmq_audit.errors import EXIT_OF, AuditError, UsageError
from aiorocketmq_audit.text import instant, plain

if TYPE_CHECKING:
    from aiorocketmq_audit.recording.narrowing import Narrowing
    from aiorocketmq_audit.streaming.state import State


def _instant(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """An ISO time as microseconds since 1970; UTC if it names no zone."""
    del context
    if text is None:
        return None
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not a time: write it as 2026-11-21T10:00:00.", param=parameter
        ) from None
    instant = instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)
    return round(instant.timestamp() * 1_000_000)


def _folder(context: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    """A folder to write; rejects option names, so that `--generate --help` does not create a folder `--help`."""
    del context
    if text is not None and text.startswith("-"):
        raise click.BadParameter(
            f"{text!r} looks like an option: give a folder (./{text}, if it is one).", param=parameter
        )
    return text


@click.command()
@click.argument("recording", nargs=-1)
@click.option(
    "--out",
    metavar="DIR",
    callback=_folder,
    help="Write report.html, summary.json, plots/ and violations/ (Parquet) here.",
)
@click.option(
    "--check", "checks", multiple=True, metavar="NAME", help="Run this check only; may be repeated."
)
@click.option(
    "--require",
    metavar="NAME[,NAME...]",
    help="The verdict is unknown if one of these checks has nothing to judge.",
)
@click.option(
    "--explain", metavar="RULE", help="Print the conditions of a rule, such as INV-EXCL, and judge nothing."
)
@click.option(
    "--master",
    metavar="URL",
    help="Spark master, or sc://HOST:PORT of Spark Connect; by default this machine.",
)
@click.option(
    "--memory", metavar="SIZE", help="Heap of a driver started here, such as 8g; by default 1g or 2g."
)
@click.option(
    "--group", "groups", multiple=True, metavar="NAME", help="Judge this group only; may be repeated."
)
@click.option(
    "--from", "from_us", metavar="TIME", callback=_instant, help="Judge events from this time on (ISO, UTC)."
)
@click.option("--to", "to_us", metavar="TIME", callback=_instant, help="Judge events up to this time.")
@click.option("--tolerance", type=int, metavar="MS", help="How early is tolerated; 100 ms by default.")
@click.option("--clock-skew", type=int, metavar="MS", help="How far clocks may differ; 50 ms by default.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON and nothing else.")
@click.option(
    "--follow", is_flag=True, help="Judge a recording while it grows, until Ctrl-C; resumes where it stopped."
)
@click.option("--until-complete", is_flag=True, help="With --follow: end when all recorders have ended.")
@click.option(
    "--until-idle", type=float, metavar="S", help="With --follow: end after S seconds without new files."
)
@click.option(
    "--horizon",
    type=float,
    metavar="S",
    help="With --follow: remember completed messages for S seconds; 600 by default.",
)
@click.option(
    "--generate",
    metavar="DIR",
    callback=_folder,
    help="Judge nothing: write a synthetic recording here (needs no Java).",
)
@click.option("--events", type=int, metavar="N", help="Rows of the synthetic recording; 100000 by default.")
@click.option(
    "--seed",
    type=int,
    metavar="S",
    help="Seed of the synthetic recording, which it determines; 1 by default.",
)
@click.option(
    "--shape",
    multiple=True,
    metavar="NAME=VALUE",
    help="What it is like, such as hot=0.2 or groups=4; may be repeated. The names are in docs/reference/audit.md.",
)
@click.option(
    "--plant",
    "plants",
    multiple=True,
    metavar="KIND[:COUNT]",
    help="Inject faults, such as acked.soon:3, loss-mid or all; may be repeated. DIR/_planted.json lists them.",
)
def audit(
    recording: tuple[str, ...],
    out: str | None,
    checks: tuple[str, ...],
    require: str | None,
    explain: str | None,
    master: str | None,
    memory: str | None,
    groups: tuple[str, ...],
    from_us: int | None,
    to_us: int | None,
    tolerance: int | None,
    clock_skew: int | None,
    as_json: bool,
    follow: bool,
    until_complete: bool,
    until_idle: float | None,
    horizon: float | None,
    generate: str | None,
    events: int | None,
    seed: int | None,
    shape: tuple[str, ...],
    plants: tuple[str, ...],
) -> None:
    """Judge recordings with Spark: order, double deliveries, retries, dead letters, delays, loss and more.

    Exit codes: 0 valid, 1 a promise was broken, 3 unknown, 2 wrong use, 4 not a recording, no Java, or disk full.

    Example: aiorocketmq audit runs/ --out audit/
    """
    # The audit passes no pandas objects to Spark; PySpark warns about the pandas version in any case.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    if generate is not None or events is not None or seed is not None or shape or plants:
        from aiorocketmq_audit.generator.command import make

        code = make(generate, recording, events=events, seed=seed, shape=shape, plants=plants)
        raise click.exceptions.Exit(code)
    if follow:
        if not recording or out is None:
            raise click.UsageError(
                "--follow needs the folder that recorders write to, and --out for findings."
            )
        if horizon is not None and horizon <= 0:
            raise click.UsageError("--horizon must be more than 0 seconds.")

        def following() -> int:
            return _follow(recording, Path(out), checks, master, until_complete, until_idle, horizon, as_json)

        raise click.exceptions.Exit(_sentences(following, out))
    if until_complete or until_idle is not None or horizon is not None:
        raise click.UsageError("--until-complete, --until-idle and --horizon belong to --follow.")
    if explain is not None:
        raise click.exceptions.Exit(_sentences(lambda: _explain(explain), out))
    if not recording:
        raise click.UsageError("give the folder of a recording, for example: aiorocketmq audit runs/")

    def judge() -> int:
        from aiorocketmq_audit.recording.narrowing import Narrowing

        return judged(
            recording,
            checks=checks,
            master=master,
            out=None if out is None else Path(out),
            narrowing=Narrowing(groups, from_us, to_us, tolerance, clock_skew),
            memory=memory,
            require=tuple(name.strip() for name in require.split(",")) if require else (),
            as_json=as_json,
        )

    raise click.exceptions.Exit(_sentences(judge, out))


def _sentences(command: Callable[[], int], out: str | None) -> int:
    """Run `command` and return its exit code; every foreseen error is one sentence on standard error."""
    try:
        return command()
    except ModuleNotFoundError as error:
        if error.name != "pyspark":
            raise
        problem: AuditError = UsageError("auditing needs pyspark: run pip install 'aiorocketmq[spark]'.")
    except AuditError as error:
        problem = error
    except Exception as error:
        from aiorocketmq_audit.failures import explained

        foreseen = explained(error, out)
        if foreseen is None:
            raise
        problem = foreseen
    click.echo(f"aiorocketmq audit: {problem}", err=True)
    return problem.exit_code


def _follow(
    recording: Sequence[str],
    out: Path,
    checks: Sequence[str],
    master: str | None,
    until_complete: bool,
    until_idle: float | None,
    horizon: float | None,
    as_json: bool,
) -> int:
    """Follow, print a line for each batch with findings, and return the exit code."""
    from aiorocketmq_audit.rules import CHECKS
    from aiorocketmq_audit.streaming.batches import Limits
    from aiorocketmq_audit.streaming.following import Options, follow

    def report(state: State, findings: Mapping[str, int]) -> None:
        if findings:
            counts = ", ".join(f"{name} {n}" for name, n in sorted(findings.items()))
            click.echo(f"batch {state.batch}, up to {instant(state.watermark_us)}: {counts}", err=True)

    limits = Limits() if horizon is None else Limits(horizon_us=round(horizon * 1e6))
    options = Options(until_complete, until_idle, limits=limits)
    document = follow(
        recording, out, checks=checks or tuple(CHECKS), options=options, master=master, report=report
    )
    if as_json:
        click.echo(json.dumps(document))
    else:
        click.echo(f"{document['verdict']}: {plain(' '.join(document['reasons']))}")
        click.echo(f"findings: {plain(out / 'findings')}")
    return EXIT_OF[document["verdict"]]


def _explain(rule: str) -> int:
    from aiorocketmq_audit.rules import explain

    try:
        click.echo(explain(rule))
    except KeyError:
        raise UsageError(
            f"there is no invariant or check {rule!r}: docs/reference/audit.md has all."
        ) from None
    return 0


def judged(
    paths: Sequence[str],
    *,
    checks: Sequence[str],
    master: str | None,
    out: Path | None,
    narrowing: Narrowing,
    memory: str | None,
    require: Sequence[str],
    as_json: bool,
) -> int:
    """Audit `paths`, write the results to `out`, print them, and return the exit code."""
    from aiorocketmq_audit.audit import audit as run
    from aiorocketmq_audit.recording.out import out_folder
    from aiorocketmq_audit.report.page import files
    from aiorocketmq_audit.report.summary import summary
    from aiorocketmq_audit.report.terminal import show
    from aiorocketmq_audit.rules import CHECKS

    with out_folder(out) if out is not None else nullcontext() as folder:
        result = run(
            paths,
            checks=checks or tuple(CHECKS),
            master=master,
            violations=None if folder is None else folder.path_for("violations").resolve().as_uri(),
            narrowing=narrowing,
            memory=memory,
            require=require,
        )
        document = summary(result, {name: check.promise for name, check in CHECKS.items()})
        if folder is not None:
            folder.path_for("plots").mkdir()
            for name, text in files(result, document).items():
                folder.path_for(name).write_text(text, encoding="utf-8")
    if as_json:
        print(json.dumps(document))
    else:
        show(document, out)
    return EXIT_OF[result.verdict.value]
