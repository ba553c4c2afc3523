"""A case's view of the broker under test."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

from aiorocketmq.admin import ExponentialBackoff

from aiorocketmq_conformance.blocks import Blocks, Step
from aiorocketmq_conformance.declaration import Declaration, Number
from aiorocketmq_conformance.probe.clock import Clock
from aiorocketmq_conformance.verdicts import NotApplicable

Note = str | float | int | bool | None

PREFIX = "cf"
DEFAULT_QUEUES = 4
"""Queues of a topic by default."""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Settings of a consumer group."""

    ordered: bool = False
    max_attempts: int = 17
    """Counts the first delivery: 17 is 16 retries, the servers' default (R7.5)."""
    backoff: Sequence[float] | ExponentialBackoff | None = None
    """Retry intervals in seconds; None for the server's."""
    consume_enabled: bool = True
    lite_topic: str = ""
    """The parent topic whose lite topics the group is bound to."""
    lite_quota: int = 0
    """Lite topics that one client may subscribe to; 0: the server's default."""
    lite_exclusive: bool = False
    """Whether a lite topic has one subscriber at a time."""


Moment = float | Literal["beginning", "end"]
"""Unix seconds, or an end of a queue."""


def at(moment: Moment) -> datetime | Literal["beginning", "end"]:
    """Return the moment as an argument of reset calls."""
    return datetime.fromtimestamp(moment, UTC) if isinstance(moment, float) else moment


class TopicAdmin(Protocol):
    """Creates topics and groups on this target; each call returns when the change is effective."""

    async def create_topic(self, name: str, *, type: str, queues: int, permission: str) -> None:  # noqa: A002
        """Create or replace a topic."""

    async def delete_topic(self, name: str) -> None:
        """Delete a topic with its messages."""

    async def create_group(self, name: str, settings: GroupSettings) -> None:
        """Create or replace a consumer group."""

    async def delete_group(self, name: str) -> None:
        """Delete a consumer group with its progress."""

    async def reset_offset(self, group: str, topic: str, to: Moment) -> None:
        """Reset a group to the first message stored at or after a time, or to an end, in every queue of a topic."""

    async def lag(self, group: str, topic: str) -> tuple[int, int]:
        """Return a group's lag in a topic, and the number of its in-flight messages."""

    async def set_retention(self, seconds: float) -> None:
        """Set the retention, counted from the store time."""

    async def set_disk_used(self, share: float) -> None:
        """Set how full the disk of the message log is, 0 to 1."""

    async def delete_expired(self) -> None:
        """Delete expired messages now."""

    async def expire_stored(self) -> None:
        """Make all stored messages expire, so that `delete_expired` deletes them within `trim.high`."""


@dataclass(frozen=True, slots=True)
class Rights:
    """A user and its permissions; names are literal, a star stands for all."""

    access_key: str
    secret: str
    publish: tuple[str, ...] = ("*",)
    subscribe: tuple[str, ...] = ("*",)
    groups: tuple[str, ...] = ("*",)


class Access(Protocol):
    """Users of the broker; once there is one, every call has to be signed."""

    async def put_user(self, rights: Rights) -> None:
        """Create or replace a user."""

    async def remove_user(self, access_key: str) -> None:
        """Delete a user."""


class ProcessControl(Protocol):
    """Faults of a broker that no other case uses at the same time."""

    async def restart(self) -> None:
        """Stop the broker gracefully and start it on the same address with the same store."""

    async def down(self, seconds: float) -> None:
        """Restart with `seconds` between stop and start."""

    async def kill(self, seconds: float = 0.0) -> None:
        """Kill the broker as kill -9 does, and start it on the same address `seconds` later."""

    async def pause(self, seconds: float) -> None:
        """Pause the broker for `seconds`, as SIGSTOP does."""


@dataclass(frozen=True, slots=True)
class Verified:
    """A consumer's result for a message that it was asked to verify."""

    code: int
    """The status code of its reply."""


class Privileges(Protocol):
    """Operations that only a broker made for tests supports."""

    async def verify_message(self, client_id: str, topic: str, message_id: str) -> Verified | None:
        """Ask a consumer to verify a stored message; None without a reply."""

    async def limit_rate(self, rpc: str, per_second: float | None) -> None:
        """Limit the rate of an RPC; None removes the limit."""

    async def bound_lite_topics(self, topic: str, *, seconds: float | None = None, count: int = 0) -> None:
        """Let lite topics of a parent expire `seconds` after their last message, and limit them to `count`."""

    async def jump_clock(self, seconds: float) -> None:
        """Set the broker's clock forward or back, as a machine's clock is set."""


@dataclass(slots=True)
class Target:
    """One case's view of one broker: its endpoints, its declaration, its clock, and how to prepare it.

    There is a new one for every case. On the bundled fake each case has its own broker, with a manual clock; on a
    server many cases share the broker and time is real. The code of a case is the same for both.
    """

    endpoint: str
    """`host:port` of the gRPC service."""
    declaration: Declaration
    clock: Clock
    """All waits of a case use it."""
    admin: TopicAdmin
    connect: Callable[[str], Any] | None = None
    """Opens another channel to an endpoint than grpcio's, if the broker's ports are in memory."""
    process_control: ProcessControl | None = None
    """How to restart it (`@restart`), if no other case uses it."""
    privileges: Privileges | None = None
    """Further operations (`@verify`, `@throttle`, `@lite-life`, `@clock`), if it was made for tests."""
    access: Access | None = None
    """Its users (`@acl`), if it has any."""
    second_proxy: str | None = None
    """`host:port` of another proxy of the same broker (`@proxies`), if there is one."""
    name_server: str | None = None
    """`host:port` of a name server of the classic protocol (`remoting`), if there is one."""
    trust: bytes | None = None
    """What clients must trust to reach it over TLS; None: its own certificate."""
    run_id: str = field(default_factory=lambda: secrets.token_hex(3))
    """Part of every fresh name, so that names of earlier runs cannot match."""
    notes: dict[str, Note] = field(default_factory=dict)
    """What the case measured; printed with its verdict."""
    was_interrupted: bool = False
    """Whether the case has restarted, killed or paused the broker."""
    blocks: Blocks = field(default_factory=Blocks, repr=False)
    """Steps that fail on this target."""
    required: set[Step] = field(default_factory=set, repr=False)
    """The steps that the case needs: if one fails, an outcome other than a pass proves nothing."""
    first_uses: set[str] = field(default_factory=set, repr=False)
    """Ids of messages that were sent to have topics created (`--create-topics auto`); no case judges them."""
    _count: itertools.count[int] = field(default_factory=itertools.count, repr=False)

    @property
    def numbers(self) -> Mapping[str, Number]:
        """Declared limits and tolerances by name (`invisible.min`, `revive.low` …); times in seconds."""
        return self.declaration.numbers

    def number(self, name: str) -> float:
        """Return one declared number; KeyError if the target declares none of that name."""
        return float(self.declaration.numbers[name])

    def has(self, need: str) -> bool:
        """Return whether the target declares a capability, an ability (`@topic`) or a choice
        (`order.grain=queue`)."""
        return not self.declaration.missing((need,))

    def require(self, *steps: Step) -> None:
        """Raise Blocked if one of `steps` is known to fail here."""
        self.required.update(steps)
        self.blocks.require(*steps)

    def block(self, step: Step, reason: str) -> None:
        """Block a step for all other cases of the run: this one has shown that it fails, and is judged."""
        self.required.discard(step)
        self.blocks.block(step, reason)

    def fresh(self, stem: str) -> str:
        """Return a topic, group, tag or message-group name that was not used before; `stem` makes it readable."""
        return f"{PREFIX}-{self.run_id}-{stem}-{next(self._count)}"

    def note(self, key: str, value: Note) -> None:
        """Record a measured value, to be printed with the verdict, for example a margin in seconds."""
        self.notes[key] = value

    async def rights_of(self, rights: Rights) -> None:
        """Create or replace a user; NotApplicable if the target has none."""
        await self._access().put_user(rights)

    async def revoke(self, access_key: str) -> None:
        """Delete a user."""
        await self._access().remove_user(access_key)

    def _access(self) -> Access:
        if self.access is None:
            raise NotApplicable("this target has no users")
        return self.access

    async def restart(self) -> None:
        """Stop and start the broker; NotApplicable if other cases use it."""
        await self.process.restart()

    @property
    def process(self) -> ProcessControl:
        """The broker as a process, to be stopped, killed or paused; NotApplicable if other cases use it."""
        if self.process_control is None:
            raise NotApplicable("this target cannot be restarted: other cases use it, too")
        self.was_interrupted = True
        return self.process_control

    @property
    def privileged(self) -> Privileges:
        """Operations of a broker made for tests; NotApplicable on others."""
        if self.privileges is None:
            raise NotApplicable("this target was not made for tests")
        return self.privileges

    async def create_topic(
        self,
        name: str | None = None,
        *,
        type: str = "NORMAL",  # noqa: A002  the protocol's own word
        queues: int = DEFAULT_QUEUES,
        permission: str = "rw",
    ) -> str:
        """Create a topic (by default with a fresh name) and return its name.

        `type` is NORMAL, FIFO, DELAY, TRANSACTION, MIXED, LITE or PRIORITY; `permission` is `rw`, `r`, `w`
        or empty.
        """
        name = name or self.fresh("topic")
        await self.admin.create_topic(name, type=type, queues=queues, permission=permission)
        return name

    async def create_group(self, name: str | None = None, **settings: Any) -> str:
        """Create or replace a consumer group (by default with a fresh name) and return its name.

        The keywords are those of `GroupSettings`.
        """
        name = name or self.fresh("group")
        await self.admin.create_group(name, GroupSettings(**settings))
        return name
