"""The one error of this package: no Apache server can be had here."""

from __future__ import annotations


class ApacheUnavailableError(Exception):
    """No Apache server can be started on this machine as asked; the text says why and what to do."""
