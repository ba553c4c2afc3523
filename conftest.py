"""Fixtures that tests of several packages share."""

import asyncio
from collections.abc import Callable
from contextvars import Context
from pathlib import Path
from typing import Any

import pytest

from tools.peer_environment import PeerUnavailableError, apache_python


@pytest.fixture(scope="session", name="apache_python")
def _apache_python() -> Path:
    """The interpreter of an environment with the newest Apache Python client; skips where none can be made."""
    try:
        return apache_python()
    except PeerUnavailableError as reason:
        pytest.skip(f"no environment for Apache's Python client: {reason}")


class _PatientLoop(asyncio.SelectorEventLoop):
    """An event loop that lets late news pass once it is closed.

    grpcio has one poller for all loops of a process. It hands the completion of a cancelled call to the loop that made
    it; where that one is closed by then, the error would surface in whatever test runs at that moment.
    """

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        if self.is_closed():
            return asyncio.Handle(callback, args, self, context)
        return super().call_soon_threadsafe(callback, *args, context=context)


def _patient_loop() -> asyncio.AbstractEventLoop:
    loop = _PatientLoop()
    # As a loop without a factory would be: fixtures that are plain functions make channels on it.
    asyncio.set_event_loop(loop)
    return loop


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Everything of ours runs on asyncio."""
    return "asyncio", {"loop_factory": _patient_loop}
