"""What grpcio is told when the first client is opened, and that it has nothing to say against it."""

import os

import pytest
from aiorocketmq._transport.environment import lacking
from aiorocketmq_fake import FakeBroker

from sdk.tests.session.programs import ended

SENDS = """
import asyncio, os, sys
from aiorocketmq import Message, Producer

async def send():
    async with Producer(sys.argv[1]) as producer:
        await producer.send(Message("orders", b"x"))

asyncio.run(send())
print(os.environ["GRPC_ENABLE_FORK_SUPPORT"], os.environ.get("GRPC_EXPERIMENTS"))
"""


@pytest.mark.parametrize(
    ("grpcio", "experiments"),
    [
        ("1.71.0", "-event_engine_client"),
        ("1.85.1", "-event_engine_client"),
        ("1.86.0", None),
        ("1.86.0rc1", None),
        ("2.0.0", None),
    ],
)
def test_only_versions_of_grpcio_that_were_tried_are_told_of_experiments(
    grpcio: str, experiments: str | None
) -> None:
    assert lacking({}, grpcio=grpcio).get("GRPC_EXPERIMENTS") == experiments


def test_what_somebody_has_set_already_stands() -> None:
    mine = {"GRPC_ENABLE_FORK_SUPPORT": "1", "GRPC_EXPERIMENTS": ""}
    assert lacking(mine, grpcio="1.85.1") == {"GRPC_VERBOSITY": "ERROR"}


async def test_grpcio_knows_what_it_is_told_and_prints_nothing() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GRPC_")}
    async with FakeBroker() as broker:
        await broker.create_topic("orders")
        out, err = await ended(SENDS, broker.endpoint, environment)
    assert err == ""
    assert out.startswith("0 ")
