"""The command `aiorocketmq audit`."""

from __future__ import annotations

from datetime import UTC, datetime

import click


def _instant(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """An ISO time as microseconds since 1970; UTC where no zone is named."""
    del context
    if text is None:
        return None
    try:
        told = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is no time: write it as 2026-11-21T10:00:00.", param=parameter
        ) from None
    told = told if told.tzinfo is not None else told.replace(tzinfo=UTC)
    return round(told.timestamp() * 1_000_000)


def _folder(context: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    """A folder to write; `--generate --help` shall not make one of that name."""
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
@click.option("--master", metavar="URL", help="Spark master; the default is this machine.")
@click.option("--memory", metavar="SIZE", help="Heap of a local session, such as 8g; by default 1g or 4g.")
@click.option(
    "--group", "groups", multiple=True, metavar="NAME", help="Judge this group only; may be repeated."
)
@click.option(
    "--from",
    "from_us",
    metavar="TIME",
    callback=_instant,
    help="Judge what happened from then on (ISO, UTC).",
)
@click.option("--to", "to_us", metavar="TIME", callback=_instant, help="Judge what happened until then.")
@click.option("--tolerance", type=int, metavar="MS", help="How much early is tolerated; 100 if nobody says.")
@click.option("--clock-skew", type=int, metavar="MS", help="How far clocks may be apart; 50 if not said.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON and nothing else.")
@click.option(
    "--warm-up", is_flag=True, help="Prepare this machine once, so that later audits start in half the time."
)
@click.option(
    "--follow",
    is_flag=True,
    help="Judge a recording while it grows, until Ctrl-C; goes on where it was ended.",
)
@click.option("--until-complete", is_flag=True, help="With --follow: end when all recorders have ended.")
@click.option(
    "--until-idle", type=float, metavar="S", help="With --follow: end when nothing has come for S seconds."
)
@click.option(
    "--horizon",
    type=float,
    metavar="S",
    help="With --follow: remember messages that are done for S seconds; 600 if not said.",
)
@click.option(
    "--generate",
    metavar="DIR",
    callback=_folder,
    help="Judge nothing: make up a recording and write it here (needs no Java).",
)
@click.option("--events", type=int, metavar="N", help="Rows of the made-up recording; 100000 if not said.")
@click.option("--seed", type=int, metavar="S", help="The same seed makes the same recording; 1 if not said.")
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
    help="Break a promise in it, such as acked.soon:3, loss-mid or all; may be repeated. DIR/_planted.json lists them.",
)
def audit(
    recording: tuple[str, ...],
    out: str | None,
    checks: tuple[str, ...],
    master: str | None,
    memory: str | None,
    groups: tuple[str, ...],
    from_us: int | None,
    to_us: int | None,
    tolerance: int | None,
    clock_skew: int | None,
    as_json: bool,
    warm_up: bool,
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
    """Judge recordings by Spark: order, double deliveries, retries, dead letters, delays, loss, transactions and more.

    Ends with 0 (valid), 1 (a promise was broken), 3 (unknown), 2 (wrong use) or 4 (not a recording, no Java).

    Example: aiorocketmq audit runs/ --out audit/
    """
    if generate is not None or events is not None or seed is not None or shape or plants:
        from aiorocketmq_audit.generator.command import make

        code = make(generate, recording, events=events, seed=seed, shape=shape, plants=plants)
        raise click.exceptions.Exit(code)
    if follow:
        from aiorocketmq_audit.streaming.command import run as run_following

        code = run_following(
            recording,
            out,
            checks,
            master,
            as_json=as_json,
            until_complete=until_complete,
            until_idle=until_idle,
            horizon=horizon,
        )
        raise click.exceptions.Exit(code)
    if until_complete or until_idle is not None or horizon is not None:
        raise click.UsageError("--until-complete, --until-idle and --horizon belong to --follow.")
    from aiorocketmq_audit.command import Wanted, run

    wanted = Wanted(memory, groups, from_us, to_us, tolerance, clock_skew)
    code = run(recording, out, checks, master, as_json=as_json, warm_up=warm_up, wanted=wanted)
    raise click.exceptions.Exit(code)
