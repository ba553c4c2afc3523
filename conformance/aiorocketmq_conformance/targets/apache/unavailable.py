"""The error of this package: no Apache server can be started here."""

from __future__ import annotations


class ApacheUnavailableError(Exception):
    """No such Apache server can be started on this machine; the text has the reason and what to do."""
