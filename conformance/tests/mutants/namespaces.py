"""Brokers without namespaces."""

from __future__ import annotations

from conformance.tests.mutants.mutant import ROUNDTRIP, SESSION, Mutant

MUTANTS = (
    Mutant(
        "mu-namespaces-are-lost",
        ("life.namespace-isolated",),
        (*SESSION, ROUNDTRIP),
        changes={"namespaces_isolate": False},
        defect="Namespaces are ignored.",
    ),
)
