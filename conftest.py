"""Fixtures that tests of several packages share."""

from pathlib import Path

import pytest

from tools.peer_environment import PeerUnavailable, apache_python


@pytest.fixture(scope="session", name="apache_python")
def _apache_python() -> Path:
    """The interpreter of an environment with the newest Apache Python client; skips where none can be made."""
    try:
        return apache_python()
    except PeerUnavailable as reason:
        pytest.skip(f"no environment for Apache's Python client: {reason}")
