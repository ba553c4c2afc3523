"""The command `aiorocketmq audit --generate`: writes a recording, prints its size, and returns an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from aiorocketmq_audit.errors import AuditError, UsageError
from aiorocketmq_audit.spark.progress import progress

EVENTS, SEED = 100_000, 1


def make(
    folder: str | None,
    recording: Sequence[str],
    *,
    events: int | None,
    seed: int | None,
    shape: Sequence[str],
    plants: Sequence[str],
) -> int:
    """Write the recording and return the exit code; every foreseen error is one sentence."""
    seed = SEED if seed is None else seed
    try:
        if folder is None:
            raise UsageError("--events, --seed, --shape and --plant belong to --generate DIR.")
        if recording:
            raise UsageError(f"--generate judges nothing: leave out {recording[0]}, or --generate.")
        _write(folder, EVENTS if events is None else events, seed, shape, plants)
    except AuditError as error:
        print(f"aiorocketmq audit: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        reason = error.strerror or error
        print(f"aiorocketmq audit: {folder} could not be written: {reason}.", file=sys.stderr)
        return 4
    return 0


def _write(folder: str, events: int, seed: int, shape: Sequence[str], plants: Sequence[str]) -> None:
    try:
        from aiorocketmq_audit.generator import Shape, generate
        from aiorocketmq_audit.generator.injection import LIST, chosen
    except ModuleNotFoundError as missing:
        raise UsageError(
            f"--generate needs {missing.name}: run pip install 'aiorocketmq[generator]'."
        ) from missing
    with progress("generating"):
        generated = generate(
            folder, events=events, seed=seed, shape=Shape.parse(shape), plants=chosen(plants)
        )
    size = f"{generated.events:,} events about {generated.messages:,} messages"
    print(f"{size} in {generated.files} file(s): {folder} (seed {seed})")
    if generated.planted:
        print(f"{len(generated.planted):,} findings planted: {folder}/{LIST}")
