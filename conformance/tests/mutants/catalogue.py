"""All mutants, and the cases that need not kill any."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from conformance.tests.mutants.mutant import Mutant, mutants_of

MUTANTS = tuple(
    mutant for path in sorted(Path(__file__).parent.glob("*.toml")) for mutant in mutants_of(path)
)


def mutant(name: str) -> Mutant:
    """Return the mutant of a name."""
    return next(each for each in MUTANTS if each.name == name)


_LIBRARY = "judges the client library, whose own tests break it; no broker is asked"

UNPROVEN: Mapping[str, str] = {
    **{f"life.sdk-start-bad-endpoint[{kind}]": _LIBRARY for kind in ("producer", "push", "simple")},
    **dict.fromkeys(
        ("life.tls[on]", "life.tls[plain]"),
        "the port answers before any core is asked; its own tests hold ports of one kind against it",
    ),
    **dict.fromkeys(
        ("pull.filter-check[legal]", "pull.filter-check[illegal]"),
        "the remoting port compiles it before any core is asked; its own tests ask it for both kinds",
    ),
    "remoting.numbers": "the remoting port reads numbers before any core is asked; machine-made mutants of it fail",
    "limit.unknown-field": "the protobuf runtime drops such fields before anybody of ours sees them",
    **dict.fromkeys(
        (
            "auth.stale-date",
            "limit.validation-first",
            "filter.sql-float-int",
            "offset.new-group-start",
            "offset.reset-not-retry",
        ),
        "informational: it is recorded and never fails",
    ),
    "filter.sql-absent": "every target that the suite brings serves SQL filters",
    **dict.fromkeys(
        (
            "life.close-idempotent",
            "life.sdk-no-topics",
            "fifo.accelerator",
            "simple.unsubscribe",
            "push.attempt-id-kept",
            "push.cache-bytes",
            "push.cache-count",
            "push.close-drains",
            "push.corrupt-body",
            "push.receive-throttled",
            "push.subscribe-later",
            "push.threads",
            "push.unsubscribe",
            "send.batch-partial-status",
            "send.retry-keeps-id",
            "send.tx-not-retried",
            "timing.fifo-step",
        ),
        _LIBRARY,
    ),
    **{
        f"life.sdk-start-missing[{part}]": _LIBRARY
        for part in ("endpoint", "group", "handler", "concurrency", "timeouts", "topic")
    },
}
"""Cases that no mutant kills, each with its reason."""
