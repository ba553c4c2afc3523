"""The verdicts of a case, and the exceptions that stand for some of them."""

from __future__ import annotations

from enum import Enum


class Verdict(Enum):
    """The outcome of one case on one target; inventory 6.2."""

    PASS = "pass"
    """The promise holds."""
    FAIL = "fail"
    """The promise is broken."""
    XFAIL = "xfail"
    """Broken as listed in the target's deviation file."""
    XPASS = "xpass"
    """A listed deviation did not occur: the run fails until the file is corrected."""
    NOT_APPLICABLE = "n/a"
    """The target does not declare what the case needs."""
    INCONCLUSIVE = "inconclusive"
    """No verdict is possible, for example because a sentinel was not delivered."""
    ERROR = "error"
    """A defect of the suite: the case raised an exception, exceeded its deadline, or left calls unfinished."""
    BLOCKED = "blocked"
    """Not judged: a step that the case needs fails on this target."""
    NOT_RUN = "not-run"
    """The run ended before the case was started."""

    @property
    def fails_the_run(self) -> bool:
        """Whether this verdict alone makes the run end with exit code 1."""
        return self in {Verdict.FAIL, Verdict.XPASS, Verdict.ERROR}

    @property
    def counts_as(self) -> str:
        """`passed`, `failed` or `skipped` in the run's last line; xfail is skipped, as in JUnit."""
        if self is Verdict.PASS:
            return "passed"
        return "failed" if self.fails_the_run else "skipped"


class Inconclusive(Exception):
    """Raised by a case that allows no verdict; its text is the reason."""


class NotApplicable(Exception):
    """Raised by a case that detects at run time that the target lacks what it needs."""


class Blocked(Exception):
    """Raised if a case needs a step that fails on this target; its text is the reason."""
