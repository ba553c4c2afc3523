"""What grpcio is told by environment variables, which it reads once, when it is loaded."""

from __future__ import annotations

from collections.abc import Mapping

UNTRIED = (1, 86)
"""Versions of grpcio from here on are newer than this package: what it knows of them beyond their documents may be
wrong."""


def lacking(environment: Mapping[str, str], *, grpcio: str) -> dict[str, str]:
    """The variables that the transport wants of `grpcio`, a version such as "1.85.1", and `environment` has not."""
    wanted = {
        # Its own handling of forks cannot work while its poller runs, which it always does here, and crashes every
        # third child in the attempt: a child gets our error instead.
        "GRPC_ENABLE_FORK_SUPPORT": "0",
        # Otherwise it tells standard error of every server that closes a connection; what matters is in our errors
        # and logs.
        "GRPC_VERBOSITY": "ERROR",
    }
    if is_tried(grpcio):
        # The thread that waits for answers reads them by itself, as it did before 1.80. With the engine in between a
        # call takes half as much CPU again. Of a name that it does not know it tells standard error.
        wanted["GRPC_EXPERIMENTS"] = "-event_engine_client"
    return {name: value for name, value in wanted.items() if name not in environment}


def is_tried(grpcio: str) -> bool:
    """Whether this package was used with `grpcio`, a version such as "1.85.1", so that its inside is known."""
    major, minor = grpcio.split(".")[:2]
    return (int(major), int(minor)) < UNTRIED
