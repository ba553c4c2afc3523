"""Errors of the audit: each is one sentence that states the problem and the remedy."""

from __future__ import annotations

EXIT_OF = {"valid": 0, "invalid": 1, "unknown": 3}
"""Exit codes of the command by verdict (architecture, section 10)."""


class AuditError(Exception):
    """An audit that could not be completed; `exit_code` is that of the command (architecture, section 10)."""

    exit_code = 4


class UsageError(AuditError):
    """An argument is wrong: an unknown path, an unknown check, a folder that cannot be used."""

    exit_code = 2


class InvalidRecordingError(AuditError):
    """The files are not a recording of a supported version."""


class OutputError(AuditError):
    """The results could not be written: no space, or no permission."""


class JavaNotFoundError(AuditError):
    """No Java runtime was found that is new enough for Spark."""


class SparkUnavailableError(AuditError):
    """Spark did not start, or could not be reached."""
