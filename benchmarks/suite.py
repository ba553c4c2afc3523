"""How long the conformance suite takes on the fake: all of it, and one case by its id, each in a fresh process."""

from __future__ import annotations

from benchmarks.sizes import command, timed

REPEATS = 3


def measured_suite() -> dict[str, list[float]]:
    """Measure a few times. Raises CalledProcessError where a case fails."""
    suite = (command(), "conformance", "run", "--target", "fake")
    return {
        "one_case_s": [timed(*suite, "--select", "send.receipt") for _ in range(REPEATS)],
        "suite_s": [timed(*suite) for _ in range(REPEATS)],
    }
