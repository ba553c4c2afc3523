"""What grpcio is told before it serves, and that it has nothing to say against it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SERVES = """
import asyncio, os
from aiorocketmq_fake import FakeBroker

async def serve():
    async with FakeBroker() as broker:
        await broker.create_topic("orders")

asyncio.run(serve())
print(os.environ["GRPC_EXPERIMENTS"])
"""


@pytest.mark.parametrize(
    ("chosen", "told"),
    [({}, "-event_engine_client,-event_engine_listener"), ({"GRPC_EXPERIMENTS": ""}, "")],
)
def test_grpcio_knows_what_it_is_told_and_prints_nothing(chosen: dict[str, str], told: str) -> None:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("GRPC_")}
    ended = subprocess.run(
        [sys.executable, "-c", SERVES],
        env=ours | chosen,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert (ended.stdout.strip(), ended.stderr) == (told, "")
