"""The servers around the core: everything that can wait or fail."""

import os
from importlib.metadata import version

_UNTRIED = (1, 86)
"""Versions of grpcio from here on are newer than this package: they may not know their experiments by these names."""

if tuple(int(part) for part in version("grpcio").split(".")[:2]) < _UNTRIED:
    # Read once, when grpcio is loaded. The thread that waits for calls reads them by itself then, as it once did; with
    # threads in between a send takes a tenth more CPU. What somebody has chosen stands.
    os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_client,-event_engine_listener")
