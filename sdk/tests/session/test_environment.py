"""grpcio gets its settings when it is loaded, and the environment of the process stays as it was."""

import os

import pytest

from sdk.tests.session.programs import ended

PROGRAM = """
import asyncio, importlib, logging, os, sys, warnings
from contextlib import AsyncExitStack

def settings():
    return {name: value for name, value in os.environ.items() if name.startswith("GRPC_")}

before = settings()
importlib.import_module(sys.argv[1])

from aiorocketmq import Message, Producer
from aiorocketmq_fake import FakeBroker

logging.disable()

async def main():
    async with AsyncExitStack() as last:
        async with FakeBroker() as broker:
            await broker.create_topic("orders")
            producer = await last.enter_async_context(Producer(broker.endpoint))
            await producer.send(Message("orders", b"x"))
            with warnings.catch_warnings():
                # Python itself warns of forks beside threads from 3.12 on.
                warnings.simplefilter("ignore")
                child = os.fork()
            if not child:
                os._exit(0)
            os.waitpid(child, 0)
        # The server closes the connection before the client does, which grpcio logs if it may.

asyncio.run(main())
assert settings() == before, settings()
"""
FORKED = "fork_posix.cc"
"""Where grpcio's handling of forks logs that it skips one; it logs nothing if it is off."""


async def logged(first: str, **settings: str) -> str:
    """What grpcio logs of a program that imports `first` first, sends and forks."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("GRPC_")}
    _, err = await ended(PROGRAM, first, others | settings)
    return err


FIRST = pytest.mark.parametrize(
    "first", ["aiorocketmq._transport.grpcio", "aiorocketmq_fake.broker", "aiorocketmq_fake.client"]
)


@FIRST
async def test_grpcio_logs_nothing_and_the_environment_stays_as_it_was(first: str) -> None:
    assert await logged(first) == ""


@FIRST
async def test_grpcio_does_not_handle_forks(first: str) -> None:
    assert FORKED not in await logged(first, GRPC_VERBOSITY="INFO")


@FIRST
async def test_grpcio_logs_errors_only(first: str) -> None:
    assert FORKED not in await logged(first, GRPC_ENABLE_FORK_SUPPORT="1")


async def test_settings_of_the_user_stand() -> None:
    log = await logged("aiorocketmq_fake.broker", GRPC_VERBOSITY="INFO", GRPC_ENABLE_FORK_SUPPORT="1")
    assert FORKED in log
