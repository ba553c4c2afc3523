"""What `aiorocketmq audit --generate` does: makes a recording up, says what was made, and ends with a number."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from aiorocketmq_audit.errors import AuditError, WrongUse

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
    try:
        return _make(folder, recording, events=events, seed=seed, shape=shape, plants=plants)
    except AuditError as error:
        print(f"aiorocketmq audit: {error}", file=sys.stderr)
        return error.exit_code


def _make(
    folder: str | None,
    recording: Sequence[str],
    *,
    events: int | None,
    seed: int | None,
    shape: Sequence[str],
    plants: Sequence[str],
) -> int:
    if folder is None:
        raise WrongUse("--events, --seed, --shape and --plant belong to --generate DIR.")
    if recording:
        raise WrongUse(f"--generate judges nothing: leave out {recording[0]}, or --generate.")
    try:
        from aiorocketmq_audit.generator import Shape, generate
        from aiorocketmq_audit.generator.planting import LIST, chosen
    except ModuleNotFoundError as missing:
        raise WrongUse(f"generating needs {missing.name}: run pip install 'aiorocketmq[spark]'.") from missing
    number = SEED if seed is None else seed
    try:
        made = generate(
            folder,
            events=EVENTS if events is None else events,
            seed=number,
            shape=Shape.parse(shape),
            plants=chosen(plants),
        )
    except OSError as error:
        print(
            f"aiorocketmq audit: {folder} could not be written: {error.strerror or error}.", file=sys.stderr
        )
        return 4
    print(
        f"{made.events:,} events about {made.messages:,} messages in {made.files} file(s): {folder} (seed {number})"
    )
    if made.planted:
        print(f"{len(made.planted):,} findings planted: {folder}/{LIST}")
    return 0
