"""When a client is ready or degraded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from aiorocketmq.errors import UnreachableError
from aiorocketmq.health import Health

READY = Health(running=True, connected=True, settings_in_force=True, last_success=None)


@pytest.mark.parametrize(
    "change",
    [
        {"running": False},
        {"connected": False},
        {"settings_in_force": False},
        {"failure": UnreachableError("not there")},
    ],
)
def test_a_client_is_ready_if_nothing_is_missing(change: dict[str, Any]) -> None:
    assert (READY.is_ready, replace(READY, **change).is_ready) == (True, False)


def test_a_degraded_client_is_ready_still() -> None:
    degraded = replace(READY, degraded={"renewing leases": "refused"})
    assert (READY.is_degraded, degraded.is_degraded, degraded.is_ready) == (False, True, True)
