"""Preparing topics and groups of a bundled fake: in this process, or elsewhere over its control service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiorocketmq_fake.broker import FakeBroker
from aiorocketmq_fake.client import FakeBrokerClient
from aiorocketmq_fake.core.codes import Refusal

from aiorocketmq_conformance.brokers.interface import TargetUnavailable
from aiorocketmq_conformance.target import Preparation

_PERMISSIONS = {"rw": "READ_WRITE", "r": "READ", "w": "WRITE", "": "NONE"}


class FakePreparation:
    """Topics and groups of a fake, made or replaced as administrators of a server do it."""

    def __init__(self, broker: FakeBroker | FakeBrokerClient) -> None:
        self._broker = broker

    async def create_topic(self, name: str, *, type: str, queues: int, permission: str) -> None:  # noqa: A002
        """Make or replace a topic."""
        permitted = _PERMISSIONS[permission]
        try:
            await self._broker.create_topic(name, type=type, queues=queues, permission=permitted)
        except Refusal:
            await self._broker.update_topic(name, type=type, queues=queues, permission=permitted)

    async def delete_topic(self, name: str) -> None:
        """Remove a topic with its messages."""
        await self._broker.delete_topic(name)

    async def create_group(self, name: str, *, ordered: bool, max_attempts: int) -> None:
        """Make or replace a consumer group."""
        try:
            await self._broker.create_group(name, ordered=ordered, max_attempts=max_attempts)
        except Refusal:
            await self._broker.update_group(name, ordered=ordered, max_attempts=max_attempts)

    async def delete_group(self, name: str) -> None:
        """Remove a consumer group with its progress."""
        await self._broker.delete_group(name)


@asynccontextmanager
async def controlled_preparation(control: str) -> AsyncIterator[Preparation]:
    """The way to make topics through the control service at `control` (`host:port`); TargetUnavailable."""
    client = FakeBrokerClient(control)
    try:
        await client.__aenter__()
    except ConnectionError as error:
        raise TargetUnavailable(str(error)) from error
    try:
        yield FakePreparation(client)
    finally:
        await client.__aexit__(None, None, None)
