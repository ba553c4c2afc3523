"""A recorder whose clock a test moves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from aiorocketmq.recording import Recorder

from sdk.tests.recording.events_as_rows import Instants


@pytest.fixture
def clock() -> Instants:
    return Instants()


@pytest.fixture
def recorder(tmp_path: Path, clock: Instants) -> Iterator[Recorder]:
    with Recorder(tmp_path / "runs", clock=clock) as recorder:
        yield recorder
