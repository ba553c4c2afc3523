"""What an audit cannot work with: every error is one sentence that says what was wrong and what to do."""

from __future__ import annotations

EXIT_OF = {"valid": 0, "invalid": 1, "unknown": 3}
"""Exit codes of the command by verdict (architecture, section 10)."""


class AuditError(Exception):
    """An audit that could not be made; `exit_code` is what the command line ends with (architecture, section 10)."""

    exit_code = 4


class WrongUse(AuditError):
    """The caller asked for something that does not exist: a path, a check."""

    exit_code = 2


class NotARecording(AuditError):
    """There are files, but they are no recording of a version that this program reads."""


class CannotWrite(AuditError):
    """The results could not be written: no room, or no leave."""


class NoJava(AuditError):
    """Spark needs a Java runtime, and none was found that is new enough."""


class NoSpark(AuditError):
    """Spark did not start, or could not be reached."""
