"""Creates topics and groups of a server over the classic protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiorocketmq.admin import Admin, TopicType
from aiorocketmq.config import Credentials
from aiorocketmq.errors import NotSupportedError, RocketMQError

from aiorocketmq_conformance.target import GroupSettings, Moment, Rights, TopicAdmin, at
from aiorocketmq_conformance.targets.interface import TargetUnavailableError
from aiorocketmq_conformance.verdicts import NotApplicable


class RemotingAdmin:
    """Creates topics and groups through `Admin`."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    async def create_topic(self, name: str, *, type: str, queues: int, permission: str) -> None:  # noqa: A002
        """Create or replace a topic; it has a route when this returns."""
        await self._admin.create_topic(
            name, type=TopicType(type), queues=queues, readable="r" in permission, writable="w" in permission
        )

    async def delete_topic(self, name: str) -> None:
        """Delete a topic with its messages."""
        await self._admin.delete_topic(name)

    async def create_group(self, name: str, settings: GroupSettings) -> None:
        """Create or replace a consumer group."""
        await self._admin.create_group(
            name,
            ordered=settings.ordered,
            max_attempts=settings.max_attempts,
            backoff=settings.backoff,
            consume_enabled=settings.consume_enabled,
            lite_topic=settings.lite_topic,
            lite_quota=settings.lite_quota,
            lite_exclusive=settings.lite_exclusive,
        )

    async def delete_group(self, name: str) -> None:
        """Delete a consumer group with its progress."""
        await self._admin.delete_group(name)

    async def reset_offset(self, group: str, topic: str, to: Moment) -> None:
        """Reset a group's progress in every queue of a topic."""
        await self._admin.reset_offset(group, topic, to=at(to))

    async def lag(self, group: str, topic: str) -> tuple[int, int]:
        """Refuse."""
        raise NotApplicable("the suite does not send requests for a server's lag")

    async def set_retention(self, seconds: float) -> None:
        """Refuse: retention of servers is in hours and whole files of their log."""
        raise NotApplicable("retention of servers is in hours, and they delete whole files of a gigabyte")

    async def set_disk_used(self, share: float) -> None:
        """Refuse."""
        raise NotApplicable("the suite fills no disks")

    async def delete_expired(self) -> None:
        """Refuse, as `set_retention`."""
        await self.set_retention(0.0)

    async def expire_stored(self) -> None:
        """Refuse, as `set_retention`."""
        await self.set_retention(0.0)


class RemotingAccess:
    """The users of a server with authentication."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    async def put_user(self, rights: Rights) -> None:
        """Create a user; cases create each one once."""
        await self._admin.create_user(rights.access_key, rights.secret)
        await self._admin.permit(
            rights.access_key, publish=rights.publish, subscribe=rights.subscribe, groups=rights.groups
        )

    async def remove_user(self, access_key: str) -> None:
        """Delete a user."""
        await self._admin.delete_user(access_key)


class NoAdmin:
    """For targets without an admin interface: every case that needs a topic is not applicable."""

    _REASON = (
        "topics and groups cannot be created on this target: pass --namesrv, --control of a fake, or "
        "--create-topics auto if it creates them at first use"
    )

    async def create_topic(self, name: str, *, type: str, queues: int, permission: str) -> None:  # noqa: A002
        """Refuse."""
        raise NotApplicable(self._REASON)

    async def delete_topic(self, name: str) -> None:
        """Refuse."""
        raise NotApplicable(self._REASON)

    async def create_group(self, name: str, settings: GroupSettings) -> None:
        """Refuse."""
        raise NotApplicable(self._REASON)

    async def delete_group(self, name: str) -> None:
        """Refuse."""
        raise NotApplicable(self._REASON)

    async def reset_offset(self, group: str, topic: str, to: Moment) -> None:
        """Refuse."""
        raise NotApplicable(self._REASON)

    async def lag(self, group: str, topic: str) -> tuple[int, int]:
        """Refuse."""
        raise NotApplicable(self._REASON)

    async def set_retention(self, seconds: float) -> None:
        """Refuse."""
        raise NotApplicable(self._REASON)

    async def set_disk_used(self, share: float) -> None:
        """Refuse."""
        raise NotApplicable(self._REASON)

    async def delete_expired(self) -> None:
        """Refuse."""
        raise NotApplicable(self._REASON)

    async def expire_stored(self) -> None:
        """Refuse."""
        raise NotApplicable(self._REASON)


@asynccontextmanager
async def open_admin(namesrv: str, credentials: Credentials | None = None) -> AsyncIterator[Admin]:
    """Open an `Admin` for the name server at `namesrv` (`host:port`), or for `broker://host:port`;
    TargetUnavailableError."""
    endpoint = namesrv if "://" in namesrv else f"namesrv://{namesrv}"
    admin = Admin(endpoint, timeout=10.0, credentials=credentials)
    try:
        await admin.__aenter__()
    except NotSupportedError as error:
        raise TargetUnavailableError(
            f"the server at {namesrv} is not a name server; if it is a broker, pass --namesrv broker://{namesrv}"
        ) from error
    except RocketMQError as error:
        raise TargetUnavailableError(str(error)) from error
    try:
        yield admin
    finally:
        await admin.__aexit__(None, None, None)


@asynccontextmanager
async def remoting_admin(namesrv: str | None) -> AsyncIterator[TopicAdmin]:
    """Create topics through the name server or broker at `namesrv`; TargetUnavailableError."""
    if namesrv is None:
        yield NoAdmin()
        return
    async with open_admin(namesrv) as admin:
        yield RemotingAdmin(admin)
