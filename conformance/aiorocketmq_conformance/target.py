"""What a case sees of the broker under test."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, Protocol

from aiorocketmq.admin import ExponentialBackoff

from aiorocketmq_conformance.blocks import Blocks, Step
from aiorocketmq_conformance.declaration import Declaration, Number
from aiorocketmq_conformance.probe.clock import Clock
from aiorocketmq_conformance.verdicts import NotApplicable

Note = str | float | int | bool | None
Ending = Callable[[], Awaitable[str | None]]

PREFIX = "cf"
DEFAULT_QUEUES = 4
"""Queues of a topic whose case is content with any number."""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """A consumer group as a case wants it."""

    ordered: bool = False
    max_attempts: int = 17
    """Counts the first delivery: 17 is 16 retries, the servers' default (R7.5)."""
    backoff: Sequence[float] | ExponentialBackoff | None = None
    """Its own retry intervals in seconds; None takes the server's."""
    consume_enabled: bool = True
    lite_topic: str = ""
    """The parent topic to whose lite topics the group is bound."""
    lite_quota: int = 0
    """Lite topics that one client may subscribe to; 0: the server's default."""
    lite_exclusive: bool = False
    """A lite topic has one subscriber at a time."""


Moment = float | Literal["beginning", "end"]
"""Unix seconds, or an end of a queue."""


def at(moment: Moment) -> datetime | Literal["beginning", "end"]:
    """The same as those who move groups want it."""
    return datetime.fromtimestamp(moment, UTC) if isinstance(moment, float) else moment


class Preparation(Protocol):
    """How topics and groups are made on this target; each call returns when the broker knows them."""

    async def create_topic(self, name: str, *, type: str, queues: int, permission: str) -> None:  # noqa: A002
        """Make or replace a topic."""

    async def delete_topic(self, name: str) -> None:
        """Remove a topic with its messages."""

    async def create_group(self, name: str, settings: GroupSettings) -> None:
        """Make or replace a consumer group."""

    async def delete_group(self, name: str) -> None:
        """Remove a consumer group with its progress."""

    async def reset_offset(self, group: str, topic: str, to: Moment) -> None:
        """Move a group in every queue of a topic."""

    async def lag(self, group: str, topic: str) -> tuple[int, int]:
        """Count what a group has before it in a topic, and what it has in its hands."""

    async def keep(self, seconds: float) -> None:
        """Keep messages so long and no longer; their store time counts."""

    async def clean(self) -> None:
        """Delete what has expired, whatever the hour."""

    async def age(self) -> None:
        """Let all messages expire that are stored by now."""


@dataclass(frozen=True, slots=True)
class Rights:
    """A user and what it may do; names are literal, a star stands for all."""

    access_key: str
    secret: str
    publish: tuple[str, ...] = ("*",)
    subscribe: tuple[str, ...] = ("*",)
    groups: tuple[str, ...] = ("*",)


class Access(Protocol):
    """Who may use the broker; from the first user on every call has to be signed."""

    async def put_user(self, rights: Rights) -> None:
        """Make or replace a user."""

    async def remove_user(self, access_key: str) -> None:
        """Remove a user."""


class Disturbance(Protocol):
    """What may be done to a broker that the case has for itself."""

    async def restart(self) -> None:
        """Stop the broker in good order and start it on the same address with all that it stored."""

    async def down(self, seconds: float) -> None:
        """The same, with so many seconds between stop and start."""

    async def kill(self) -> None:
        """Kill the broker as kill -9 does, and start it on the same address."""

    async def pause(self, seconds: float) -> None:
        """Let the broker stand still for so many seconds, as SIGSTOP does."""


@dataclass(frozen=True, slots=True)
class Verified:
    """What a consumer made of a message that it was asked to consume on trial."""

    code: int
    """The status code of its reply."""


class Privileges(Protocol):
    """What only a broker lets one do that was made for tests."""

    async def verify_message(self, client_id: str, topic: str, message_id: str) -> Verified | None:
        """Ask a consumer to consume a stored message on trial; None where no reply came."""

    async def limit_rate(self, rpc: str, per_second: float | None) -> None:
        """Let at most so many calls of an RPC through; None lifts the limit."""

    async def bound_lite_topics(self, topic: str, *, seconds: float | None = None, count: int = 0) -> None:
        """Let lite topics of a parent end so long after their last message, and be no more than `count`."""

    async def jump_clock(self, seconds: float) -> None:
        """Set the broker's clock forward or back, as a machine's clock is set."""


@dataclass(slots=True)
class Target:
    """One case's view of one broker: where it is, what it claims, what time it is, and how to prepare it.

    A fresh one is made for every case. On the bundled fake its broker is the case's own too, and its clock is
    manual; on a server many cases share the broker and time is real. The text of a case is the same for both.
    """

    endpoint: str
    """`host:port` of the gRPC service."""
    declaration: Declaration
    clock: Clock
    """All waiting of a case goes through it."""
    preparation: Preparation
    disturbance: Disturbance | None = None
    """How to restart it (`@restart`), where the case has it for itself."""
    privileges: Privileges | None = None
    """What else may be done to it (`@verify`, `@throttle`, `@lite-life`, `@clock`), where it was made for tests."""
    access: Access | None = None
    """Its users (`@acl`), where it has any."""
    second_proxy: str | None = None
    """`host:port` of another proxy before the same broker (`@proxies`), where there is one."""
    name_server: str | None = None
    """`host:port` of a name server of the classic protocol (`remoting`), where there is one."""
    trust: bytes | None = None
    """What clients must trust to reach it over TLS; None: its own certificate."""
    run_id: str = field(default_factory=lambda: secrets.token_hex(3))
    """Part of every fresh name, so that nothing of an earlier run can match."""
    notes: dict[str, Note] = field(default_factory=dict)
    """What the case measured; printed with its verdict."""
    was_disturbed: bool = False
    """Whether the case has laid hands on the broker's process."""
    blocks: Blocks = field(default_factory=Blocks, repr=False)
    """What the run has shown not to work here."""
    required: set[Step] = field(default_factory=set, repr=False)
    """The steps that the case needs to work: if one does not, an end other than a pass proves nothing."""
    first_uses: set[str] = field(default_factory=set, repr=False)
    """Ids of messages that were sent to have topics created (`--create-topics auto`); no case judges them."""
    endings: list[Ending] = field(default_factory=list, repr=False)
    _count: itertools.count[int] = field(default_factory=itertools.count, repr=False)

    @property
    def numbers(self) -> Mapping[str, Number]:
        """Declared limits and tolerances by name (`invisible.min`, `revive.low` …); times in seconds."""
        return self.declaration.numbers

    def number(self, name: str) -> float:
        """One declared number; KeyError when the target declares none of that name."""
        return float(self.declaration.numbers[name])

    def has(self, need: str) -> bool:
        """Whether the target claims a capability, an ability (`@topic`) or a choice (`order.grain=queue`)."""
        return not self.declaration.missing((need,))

    def require(self, *steps: Step) -> None:
        """Raise Blocked if one of `steps` was shown not to work here."""
        self.required.update(steps)
        self.blocks.require(*steps)

    def block(self, step: Step, reason: str) -> None:
        """Block a step for all other cases of the run: this one has shown that it does not work, and is judged."""
        self.required.discard(step)
        self.blocks.block(step, reason)

    def fresh(self, stem: str) -> str:
        """A topic, group, tag or message-group name that nobody used before; `stem` makes it readable."""
        return f"{PREFIX}-{self.run_id}-{stem}-{next(self._count)}"

    def note(self, key: str, value: Note) -> None:
        """Keep a measured fact beside the verdict, for example a margin in seconds."""
        self.notes[key] = value

    def at_end(self, ending: Ending) -> None:
        """Have `ending` awaited when the case is over, however it went; the last one given goes first.

        It closes what the case opened, within 10 real seconds. A text that it returns names something left
        behind, which turns a pass into an error.
        """
        self.endings.append(ending)

    async def pass_time(self, seconds: float) -> None:
        """Let `seconds` pass: real ones on a server, at once on a manual clock, everything due in order."""
        await self.clock.sleep(seconds)

    async def rights_of(self, rights: Rights) -> None:
        """Make or replace a user; NotApplicable where the target has none."""
        await self._access().put_user(rights)

    async def revoke(self, access_key: str) -> None:
        """Remove a user."""
        await self._access().remove_user(access_key)

    def _access(self) -> Access:
        if self.access is None:
            raise NotApplicable("this target has no users")
        return self.access

    async def restart(self) -> None:
        """Stop and start the broker; NotApplicable where it is not the case's own."""
        await self.process.restart()

    @property
    def process(self) -> Disturbance:
        """The broker as a process, to be stopped, killed or paused; NotApplicable where it is not the case's own."""
        if self.disturbance is None:
            raise NotApplicable("this target cannot be restarted: other cases use it, too")
        self.was_disturbed = True
        return self.disturbance

    @property
    def special(self) -> Privileges:
        """What only a broker made for tests lets one do; NotApplicable on others."""
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
        """Make a topic (a fresh name when none is given) and return its name.

        `type` is NORMAL, FIFO, DELAY, TRANSACTION, MIXED, LITE or PRIORITY; `permission` is `rw`, `r`, `w`
        or empty.
        """
        name = name or self.fresh("topic")
        await self.preparation.create_topic(name, type=type, queues=queues, permission=permission)
        return name

    async def delete_topic(self, name: str) -> None:
        """Remove a topic with its messages."""
        await self.preparation.delete_topic(name)

    async def create_group(
        self,
        name: str | None = None,
        *,
        ordered: bool = False,
        max_attempts: int = 17,
        backoff: Sequence[float] | ExponentialBackoff | None = None,
        consume_enabled: bool = True,
    ) -> str:
        """Make or replace a consumer group (a fresh name when none is given) and return its name.

        The keywords are those of `GroupSettings`.
        """
        name = name or self.fresh("group")
        settings = GroupSettings(ordered, max_attempts, backoff, consume_enabled)
        await self.preparation.create_group(name, settings)
        return name

    async def create_lite_group(self, topic: str, *, quota: int = 0, exclusive: bool = False) -> str:
        """Make a fresh group bound to the lite topics of `topic`; the keywords are those of `GroupSettings`."""
        name = self.fresh("group")
        settings = GroupSettings(lite_topic=topic, lite_quota=quota, lite_exclusive=exclusive)
        await self.preparation.create_group(name, settings)
        return name

    async def delete_group(self, name: str) -> None:
        """Remove a consumer group with its progress."""
        await self.preparation.delete_group(name)

    async def reset_offset(self, group: str, topic: str, to: Moment) -> None:
        """Move a group to the first message stored at or after a time, or to an end, in every queue of a topic."""
        await self.preparation.reset_offset(group, topic, to)

    async def lag(self, group: str, topic: str) -> tuple[int, int]:
        """Count what a group has before it in a topic, and what it has in its hands."""
        return await self.preparation.lag(group, topic)

    async def keep(self, seconds: float) -> None:
        """Have messages kept so long from their store time and no longer."""
        await self.preparation.keep(seconds)

    async def clean(self) -> None:
        """Have the broker delete what has expired, whatever the hour."""
        await self.preparation.clean()

    async def age(self) -> None:
        """Let all messages expire that the broker has by now, so that `clean` deletes them within `trim.high`."""
        await self.preparation.age()
