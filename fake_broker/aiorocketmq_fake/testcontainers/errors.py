"""The error of this package."""

from __future__ import annotations

__all__ = ["ContainerError"]


class ContainerError(Exception):
    """A container cannot be started, or has no such port; the text has the reason and what to do."""
