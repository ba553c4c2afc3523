"""Symbolic positions in a queue."""

from enum import Enum


class Offset(Enum):
    """Symbolic positions in a queue."""

    BEGIN = "begin"
    """The oldest message that the server still retains."""
    END = "end"
    """Behind the newest message: only messages that are stored from now on."""
