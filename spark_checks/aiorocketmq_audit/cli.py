"""The command `aiorocketmq audit`."""

from __future__ import annotations

import click


@click.command()
@click.argument("recording", nargs=-1)
@click.option(
    "--out", metavar="DIR", help="Write report.html, summary.json, plots/ and violations/ (Parquet) here."
)
@click.option(
    "--check", "checks", multiple=True, metavar="NAME", help="Run this check only; may be repeated."
)
@click.option("--master", metavar="URL", help="Spark master; the default is this machine.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON and nothing else.")
@click.option(
    "--warm-up", is_flag=True, help="Prepare this machine once, so that later audits start in half the time."
)
def audit(
    recording: tuple[str, ...],
    out: str | None,
    checks: tuple[str, ...],
    master: str | None,
    as_json: bool,
    warm_up: bool,
) -> None:
    """Judge recordings by Spark: order, double deliveries, retries, attempts, dead letters, delays, origin.

    Ends with 0 (valid), 1 (a promise was broken), 3 (unknown), 2 (wrong use) or 4 (not a recording, no Java).

    Example: aiorocketmq audit runs/ --out audit/
    """
    from aiorocketmq_audit.command import run

    raise click.exceptions.Exit(run(recording, out, checks, master, as_json=as_json, warm_up=warm_up))
