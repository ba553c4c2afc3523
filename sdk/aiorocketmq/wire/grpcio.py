"""Loads grpcio, with the settings that it takes from environment variables only.

Whatever of ours imports grpcio has this module load it first, as the first import in a process decides.
"""

from __future__ import annotations

import os

_SETTINGS = {
    # Its own handling of forks cannot work while its poller runs, which it always does beside asyncio: up to 5 of 60
    # children that were forked under load crashed.
    "GRPC_ENABLE_FORK_SUPPORT": "0",
    # By default it logs to standard error when a server closes a connection or the process forks; what matters is in
    # our errors and logs.
    "GRPC_VERBOSITY": "ERROR",
}


def load_grpcio() -> None:
    """Import grpcio; variables that are set already are respected, and the environment is as before afterwards.

    In a process that has imported grpcio before, this does nothing to it."""
    unset = _SETTINGS.keys() - os.environ.keys()
    os.environ.update({name: _SETTINGS[name] for name in unset})
    try:
        import grpc
        import grpc.aio

        # The import reads the variables; versions such as 1.71 read some only at the first use, which this is (0.4 ms).
        grpc.insecure_server_credentials()
    finally:
        for name in unset:
            os.environ.pop(name, None)
