"""Settings that grpcio reads from environment variables only.

The first import of grpcio in a process decides; this module does not import it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_SETTINGS = {
    # Its own handling of forks cannot work while its poller runs, which is always the case with asyncio: up to 5 of 60
    # children that were forked under load crashed.
    "GRPC_ENABLE_FORK_SUPPORT": "0",
    # By default it logs to standard error when a server closes a connection or the process forks; what matters is in
    # our errors and logs.
    "GRPC_VERBOSITY": "ERROR",
}


@contextmanager
def grpcio_settings() -> Iterator[None]:
    """Apply the settings in a block that imports `grpc`; afterwards the environment is as before.

    Variables that are set already are kept. If `grpc` was imported before, it keeps its own settings."""
    unset = _SETTINGS.keys() - os.environ.keys()
    os.environ.update({name: _SETTINGS[name] for name in unset})
    try:
        yield
        # The import reads the variables; versions such as 1.71 read some at the first use only, which this is (0.4 ms).
        sys.modules["grpc"].insecure_server_credentials()
    finally:
        for name in unset:
            os.environ.pop(name, None)
