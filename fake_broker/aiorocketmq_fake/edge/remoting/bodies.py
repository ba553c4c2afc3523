"""JSON in the bodies of requests and answers, in the two dialects that name servers write (5)."""

from __future__ import annotations

import json
from collections.abc import Mapping

from aiorocketmq_fake.edge.remoting.frames import FrameError

__all__ = ["Keyed", "dump", "dump_loose", "load"]

Keyed = list[tuple[object, object]]
"""A map with numbers or objects as keys, as pairs."""


def load(body: bytes) -> dict[str, object]:
    """Read a JSON object; FrameError for anything else."""
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"the body is no JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise FrameError(f"the body is a {type(parsed).__name__} and not an object")
    return parsed


def dump(value: object) -> bytes:
    """Write a body in standard JSON, sorted as servers do."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def dump_loose(value: object) -> bytes:
    """Write a body in the servers' own dialect: keys of a `Keyed` map are not quoted."""
    return _loose(value).encode()


def _loose(value: object) -> str:
    if isinstance(value, Mapping):
        return (
            "{" + ",".join(f"{json.dumps(key)}:{_loose(item)}" for key, item in sorted(value.items())) + "}"
        )
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return "{" + ",".join(f"{_loose(key)}:{_loose(item)}" for key, item in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_loose, value)) + "]"
    return json.dumps(value)
