"""The command `aiorocketmq demo`."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import click

# The names are those of the audit's checks that must object.
KINDS = ("reordering", "double-delivery", "early-retry")
# What a demonstration leaves; nothing else is ever removed.
OWN = ("recording", "audit", "index.html", "demo.log")


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("aiorocketmq-demo"),
    show_default=True,
    help="Where page, recording and reports go; an earlier demo's are replaced.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Decides everything left to chance.")
@click.option(
    "--plant", "planted", type=click.Choice(KINDS), help="Break a promise and see the audit object."
)
@click.option("--spark/--no-spark", "with_spark", default=True, help="Leave the Spark audit out.")
@click.option("--conformance/--no-conformance", "with_conformance", default=True, help="Leave the cases out.")
def demo(out: Path, seed: int, planted: str | None, with_spark: bool, with_conformance: bool) -> int:
    """Show every part of the toolkit in one run against the embedded fake broker.

    Example: aiorocketmq demo --plant early-retry
    """
    from aiorocketmq_fake.core.broker import Broker
    from rich.console import Console

    from aiorocketmq_conformance.demo import audit
    from aiorocketmq_conformance.demo.progress import Stages
    from aiorocketmq_conformance.demo.run import Options, perform

    console = Console()
    _remove_earlier_demo(out)
    if with_spark and not audit.is_installed():
        console.print("The Spark audit is left out: run pip install 'aiorocketmq[spark,jre]' to have it.")
        with_spark = False
    core: Callable[..., Broker] = Broker
    if planted:
        from aiorocketmq_fake.planted import PLANTED

        core = PLANTED[planted]
    options = Options(
        out=out,
        seed=seed,
        planted=planted,
        core=core,
        with_spark=with_spark,
        with_conformance=with_conformance,
    )
    with Stages(console) as stages:
        try:
            performance = asyncio.run(perform(options, stages))
        except* audit.AuditFailedError as failed:
            raise click.ClickException(str(failed.exceptions[0])) from failed
    console.print(f"\nThe page: {performance.page.resolve()}", soft_wrap=True, highlight=False)
    return performance.exit_code


def _remove_earlier_demo(out: Path) -> None:
    """Remove an earlier demonstration from `out`; click.UsageError when something else is in it."""
    if not out.exists():
        return
    foreign = sorted(entry.name for entry in out.iterdir() if entry.name not in OWN)
    if foreign:
        raise click.UsageError(
            f"{str(out)!r} holds something that is not an earlier demo's ({foreign[0]!r}): give --out an empty folder."
        )
    for name in OWN:
        path = out / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
