"""The verdicts of a case, and the exceptions by which a case gives one itself."""

from __future__ import annotations

from enum import Enum


class Verdict(Enum):
    """The end of one case against one target; inventory 6.2."""

    PASS = "pass"
    """The promise was seen to hold."""
    FAIL = "fail"
    """The promise was seen broken."""
    XFAIL = "xfail"
    """Broken as the target's deviation file says; the case was run all the same."""
    XPASS = "xpass"
    """A deviation that the file names did not happen: the run fails until the file is mended."""
    NOT_APPLICABLE = "n/a"
    """The target does not claim what the case needs."""
    INCONCLUSIVE = "inconclusive"
    """What was seen allows no verdict, for example because a sentinel never came."""
    ERROR = "error"
    """The suite's own fault: the case broke, overran its deadline, or left something behind."""
    BLOCKED = "blocked"
    """Not judged: the run has shown that something which the case needs does not work here."""
    NOT_RUN = "not-run"
    """The run ended before the case's turn came."""

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
    """Raised by a case that could not see enough to judge; its text is the reason."""


class NotApplicable(Exception):
    """Raised by a case that finds out only while running that the target lacks what it needs."""


class Blocked(Exception):
    """Raised when a case needs a step that does not work on this target; its text is the reason."""
