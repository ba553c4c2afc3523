"""The parts that are measured besides the works, by name: what each returns goes among the sizes of the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from benchmarks.core import measured_core
from benchmarks.edge import measured_edge
from benchmarks.growth import measured_growth
from benchmarks.idle import measured_idle
from benchmarks.shares import measured_shares
from benchmarks.sizes import measured_sizes
from benchmarks.stored import measured_stored
from benchmarks.suite import measured_suite

PARTS: Mapping[str, Callable[[], dict[str, list[float]]]] = MappingProxyType(
    {
        "start": measured_sizes,
        "core": measured_core,
        "idle": measured_idle,
        "edge": measured_edge,
        "growth": measured_growth,
        "shares": measured_shares,
        "stored": measured_stored,
        "suite": measured_suite,
    }
)
