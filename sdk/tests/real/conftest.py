"""One real Apache RocketMQ for all tests of this folder, and topics and groups of their own for each."""

import shutil
from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import pytest
from aiorocketmq.admin import Admin, TopicType
from aiorocketmq.simple_consumer import SimpleConsumer
from aiorocketmq_conformance.apache.server import ApacheServer
from anyio.from_thread import start_blocking_portal

MISSING = [program for program in ("java", "mvn") if shutil.which(program) is None]


@pytest.fixture(scope="session")
def server() -> Iterator[ApacheServer]:
    """A server of 5.5.0 that allows recalls."""
    if MISSING:
        pytest.skip(f"a real Apache server needs {' and '.join(MISSING)} on the search path")
    server = ApacheServer("5.5.0", settings={"recallMessageEnable": "true"})
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(server):
        yield server


class Place:
    """A topic, a group that reads it, and where they are."""

    def __init__(self, server: ApacheServer, admin: Admin) -> None:
        self.endpoint = server.grpc
        self.topic = f"t-{uuid4().hex[:12]}"
        self.group = f"g-{self.topic}"
        self._admin = admin

    async def make(self, kind: TopicType, *, queues: int = 4, ordered: bool = False) -> str:
        """Create both; gives the topic's name."""
        await self._admin.create_topic(self.topic, type=kind, queues=queues)
        await self._admin.create_group(self.group, ordered=ordered)
        return self.topic

    def consumer(self) -> SimpleConsumer:
        """A reader of the topic."""
        return SimpleConsumer(self.endpoint, group=self.group, subscriptions=[self.topic])


@pytest.fixture
async def place(server: ApacheServer) -> AsyncIterator[Place]:
    async with Admin(f"namesrv://{server.namesrv}") as admin:
        yield Place(server, admin)
