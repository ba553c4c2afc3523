"""Places in a queue that need no number."""

from enum import Enum


class Offset(Enum):
    """Places in a queue that need no number."""

    BEGIN = "begin"
    """The oldest message that the server still keeps."""
    END = "end"
    """Behind the newest message: only what comes from now on."""
