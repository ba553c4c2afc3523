"""Creates topics and groups of a fake: in this process, or through its control service."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiorocketmq.admin import ExponentialBackoff
from aiorocketmq_fake.broker import FakeBroker
from aiorocketmq_fake.client import FakeBrokerClient
from aiorocketmq_fake.core.commands.access import User
from aiorocketmq_fake.core.values.codes import Refusal
from aiorocketmq_fake.core.values.model import RetryPolicy

from aiorocketmq_conformance.target import GroupSettings, Moment, Rights, TopicAdmin, at
from aiorocketmq_conformance.targets.interface import TargetUnavailableError
from aiorocketmq_conformance.verdicts import NotApplicable

AGE = 3600.0
"""Retention of messages that a case lets expire, in seconds."""
_PERMISSIONS = {"rw": "READ_WRITE", "r": "READ", "w": "WRITE", "": "NONE"}


class FakeAccess:
    """The users of a fake."""

    def __init__(self, broker: FakeBroker | FakeBrokerClient) -> None:
        self._broker = broker

    async def put_user(self, rights: Rights) -> None:
        """Create or replace a user."""
        user = User(
            rights.access_key,
            rights.secret,
            publish=rights.publish,
            subscribe=rights.subscribe,
            groups=rights.groups,
        )
        await self._broker.put_user(user)

    async def remove_user(self, access_key: str) -> None:
        """Delete a user."""
        await self._broker.remove_user(access_key)


class FakeAdmin:
    """Creates topics and groups of a fake as administrators of a server do."""

    def __init__(self, broker: FakeBroker | FakeBrokerClient) -> None:
        self._broker = broker

    async def create_topic(self, name: str, *, type: str, queues: int, permission: str) -> None:  # noqa: A002
        """Create or replace a topic."""
        permitted = _PERMISSIONS[permission]
        try:
            await self._broker.create_topic(name, type=type, queues=queues, permission=permitted)
        except Refusal:
            await self._broker.update_topic(name, type=type, queues=queues, permission=permitted)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic with its messages."""
        await self._broker.delete_topic(name)

    async def create_group(self, name: str, settings: GroupSettings) -> None:
        """Create or replace a consumer group."""
        keywords = self._keywords(settings)
        try:
            await self._broker.create_group(name, **keywords)
        except Refusal:
            await self._broker.update_group(name, **keywords)

    async def delete_group(self, name: str) -> None:
        """Delete a consumer group with its progress."""
        await self._broker.delete_group(name)

    async def reset_offset(self, group: str, topic: str, to: Moment) -> None:
        """Reset a group's progress in every queue of a topic."""
        await self._broker.reset_offset(group, topic, to=at(to))

    async def lag(self, group: str, topic: str) -> tuple[int, int]:
        """Return a group's lag in a topic, and the number of its in-flight messages."""
        if not isinstance(self._broker, FakeBroker):
            raise NotApplicable("lag is read from a fake in this process")
        progress = [one for one in self._broker.progress(group) if one.topic == topic]
        leases = [lease for lease in self._broker.leases(group) if lease.topic == topic]
        return sum(one.lag for one in progress), len(leases)

    async def set_retention(self, seconds: float) -> None:
        """Set the retention."""
        await self._broker.set_retention(retention=seconds)

    async def set_disk_used(self, share: float) -> None:
        """Set how full the disk of the message log is."""
        await self._broker.set_retention(disk_used=share)

    async def delete_expired(self) -> None:
        """Delete expired messages now."""
        await self._broker.delete_expired()

    async def expire_stored(self) -> None:
        """Advance time until all messages of the broker have expired."""
        if not isinstance(self._broker, FakeBroker):
            raise NotApplicable("only the clock of a fake in this process can be moved")
        await self.set_retention(AGE)
        await self._broker.clock.advance(seconds=AGE + 1.0)

    def _keywords(self, settings: GroupSettings) -> dict[str, Any]:  # Any: keywords of two kinds of broker
        if isinstance(settings.backoff, ExponentialBackoff) and not isinstance(self._broker, FakeBroker):
            raise NotApplicable("the control service of a fake makes no groups with growing intervals")
        return {
            "ordered": settings.ordered,
            "max_attempts": settings.max_attempts,
            "backoff": _backoff(settings.backoff),
            "consume_enabled": settings.consume_enabled,
            "lite_topic": settings.lite_topic,
            "lite_quota": settings.lite_quota,
            "lite_exclusive": settings.lite_exclusive,
        }


def _backoff(backoff: Sequence[float] | ExponentialBackoff | None) -> Sequence[float] | RetryPolicy:
    if isinstance(backoff, ExponentialBackoff):
        return RetryPolicy(initial=backoff.initial, maximum=backoff.maximum, multiplier=backoff.multiplier)
    return backoff or ()


@asynccontextmanager
async def control_admin(control: str) -> AsyncIterator[TopicAdmin]:
    """Create topics through the control service at `control` (`host:port`); TargetUnavailableError."""
    client = FakeBrokerClient(control)
    try:
        await client.__aenter__()
    except ConnectionError as error:
        raise TargetUnavailableError(str(error)) from error
    try:
        yield FakeAdmin(client)
    finally:
        await client.__aexit__(None, None, None)
