"""A forked child gets one clear error or a working client, and never waits for threads that stayed with its parent."""

import os

import pytest
from aiorocketmq_fake import FakeBroker

from sdk.tests.session.programs import ended

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

PROLOGUE = """
import asyncio, os, sys
from aiorocketmq import Connection, Message, Producer, PullConsumer, PushConsumer, SimpleConsumer
from sdk.tests.clients import push_consumer, simple_consumer

ENDPOINT = sys.argv[1]

def in_child(function):
    sys.stdout.flush()
    child = os.fork()
    if not child:
        try:
            function()
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", flush=True)
        os._exit(0)
    return child

async def send():
    async with Producer(ENDPOINT) as producer:
        await producer.send(Message("orders", b"x"))
        print("sent", flush=True)
"""

CHILD_USES_ITS_PARENTS_CLIENTS = """
async def main():
    connection = Connection(ENDPOINT)
    producer, simple = Producer(connection), simple_consumer(connection)
    push = push_consumer(connection, handler=repr)
    pull = PullConsumer(connection, group="billing")
    async with connection, producer, simple, push, pull:
        uses = [lambda: producer.send(Message("orders", b"x")), simple.receive, push.run, lambda: anext(pull),
                lambda: Producer(connection).__aenter__()]
        # As multiprocessing does it when it is asked for a process from inside a coroutine.
        for use in uses:
            os.waitpid(in_child(lambda: asyncio.run(asyncio.wait_for(call(use), 10))), 0)
        await producer.send(Message("orders", b"x"))
        print("the parent goes on", flush=True)

async def call(use):
    await use()

asyncio.run(main())
"""

CHILD_OPENS_A_CLIENT_AFTER_ITS_PARENT = """
asyncio.run(send())
os.waitpid(in_child(lambda: asyncio.run(send())), 0)
asyncio.run(send())
"""

CHILD_OPENS_THE_FIRST_CLIENT = """
os.waitpid(in_child(lambda: asyncio.run(send())), 0)
asyncio.run(send())
"""


async def output_of(script: str, broker: FakeBroker) -> list[str]:
    """The lines that a program prints, which ends soon by itself."""
    out, _ = await ended(PROLOGUE + script, broker.endpoint, os.environ)
    return out.splitlines()


async def test_every_client_of_the_parent_says_in_the_child_that_it_belongs_to_the_parent(
    broker: FakeBroker,
) -> None:
    *children, last = await output_of(CHILD_USES_ITS_PARENTS_CLIENTS, broker)
    assert len(children) == 5
    for line in children:
        assert line.startswith("ClosedError: ")
        assert "belongs to the process that this one was forked from" in line
    assert last == "the parent goes on"


async def test_a_child_of_a_process_that_used_grpc_gets_an_error_at_once(broker: FakeBroker) -> None:
    first, refused, last = await output_of(CHILD_OPENS_A_CLIENT_AFTER_ITS_PARENT, broker)
    assert refused.startswith("UsageError: gRPC was used in this process before it was forked")
    assert "'spawn'" in refused
    assert (first, last) == ("sent", "sent")


async def test_a_child_that_opens_the_first_client_works_and_so_does_its_parent(broker: FakeBroker) -> None:
    assert await output_of(CHILD_OPENS_THE_FIRST_CLIENT, broker) == ["sent", "sent"]
