"""The command `aiorocketmq demo`."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import click

# Named after the audit's checks that must fail.
KINDS = ("reordering", "double-delivery", "early-retry")
# Files of a demonstration; nothing else is ever removed.
OWN = ("recording", "audit", "index.html", "demo.log")


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("aiorocketmq-demo"),
    show_default=True,
    help="Directory for page, recording and reports; those of an earlier demo are replaced.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of all random numbers.")
@click.option(
    "--plant", "planted", type=click.Choice(KINDS), help="Inject a fault that the audit must detect."
)
@click.option("--spark/--no-spark", "with_spark", default=True, help="Whether to run the Spark audit.")
@click.option(
    "--conformance/--no-conformance",
    "with_conformance",
    default=True,
    help="Whether to run conformance cases.",
)
def demo(out: Path, seed: int, planted: str | None, with_spark: bool, with_conformance: bool) -> int:
    """Show every part of the toolkit in one run against the embedded fake broker.

    Example: aiorocketmq demo --plant early-retry
    """
    from aiorocketmq_fake.core.broker import Broker
    from rich.console import Console

    from aiorocketmq_conformance.demo import audit
    from aiorocketmq_conformance.demo.progress import Progress
    from aiorocketmq_conformance.demo.run import Options, run_demo

    console = Console()
    _remove_earlier_demo(out)
    if with_spark and not audit.is_installed():
        console.print("Skipping the Spark audit: it needs pip install 'aiorocketmq[spark,jre]'.")
        with_spark = False
    core: Callable[..., Broker] = Broker
    if planted:
        from aiorocketmq_fake.faulty_cores import FAULTY_CORES

        core = FAULTY_CORES[planted]
    options = Options(
        out=out,
        seed=seed,
        planted=planted,
        core=core,
        with_spark=with_spark,
        with_conformance=with_conformance,
    )
    with Progress(console) as progress:
        try:
            result = asyncio.run(run_demo(options, progress))
        except* audit.AuditFailedError as failed:
            raise click.ClickException(str(failed.exceptions[0])) from failed
    console.print(f"\nPage: {result.page.resolve()}", soft_wrap=True, highlight=False)
    return result.exit_code


def _remove_earlier_demo(out: Path) -> None:
    """Remove an earlier demonstration from `out`; click.UsageError if it contains anything else."""
    if not out.exists():
        return
    foreign = sorted(entry.name for entry in out.iterdir() if entry.name not in OWN)
    if foreign:
        raise click.UsageError(
            f"{str(out)!r} contains {foreign[0]!r}, which no demo wrote: pass --out an empty directory."
        )
    for name in OWN:
        path = out / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
