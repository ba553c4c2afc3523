"""A push consumer over gRPC: the server hands out messages with leases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._core.settings import LITE_PUSH, Declaration, FilterText
from aiorocketmq._core.stop_states import ConsumerLife
from aiorocketmq._dead_letters import check_reader
from aiorocketmq._group import make_group
from aiorocketmq._lite import LiteTopics
from aiorocketmq._push.commands import print_stacks, verify_message
from aiorocketmq._push.consumption import Consumption
from aiorocketmq._push.handlers import Handlers
from aiorocketmq._retrying import tried_until
from aiorocketmq._session import Session
from aiorocketmq.config import CacheLimits
from aiorocketmq.connection import Connection, ConnectionOptions
from aiorocketmq.hooks import Hook, Role
from aiorocketmq.wire import messages as pb


class GrpcPush:
    """The session, and what the server may ask of a push consumer. `filters` are those of the consumer as they are."""

    def __init__(
        self,
        where: str | Connection,
        life: ConsumerLife,
        handlers: Handlers,
        *,
        group: str,
        filters: Mapping[str, FilterText],
        limits: CacheLimits,
        concurrency: int,
        invisible: float,
        create_group: bool,
        lite_topics: Iterable[str] | None,
        hooks: Sequence[Hook],
        options: ConnectionOptions,
    ) -> None:
        self._life = life
        self._handlers = handlers
        self._group = group
        self._filters = filters
        self._limits = limits
        self._concurrency = concurrency
        self._invisible = invisible
        self.client = self._session = Session(
            where,
            Declaration(
                client_type="PUSH_CONSUMER" if lite_topics is None else LITE_PUSH,
                group=group,
                subscriptions=dict(filters),
            ),
            role=Role.PUSH,
            hooks=hooks,
            first_call=self._make_group if create_group else None,
            commands={
                "verify_message_command": self._verify_message,
                "print_thread_stack_trace_command": self._print_stacks,
                "notify_unsubscribe_lite_command": self._taken_away,
            },
            options=options,
        )
        self.lite = (
            None if lite_topics is None else LiteTopics(self._session, next(iter(filters)), lite_topics)
        )

    async def begin(self, until: float) -> Consumption:
        """Start the session, and receive."""
        session = self._session
        await session.start()
        try:
            await check_reader(session, self._filters)
            if self.lite is not None:
                await tried_until(until, self.lite.begin, random=session.surroundings.random)
        except BaseException:
            await session.stop()
            raise
        running = Consumption(
            self._life,
            session,
            self._handlers,
            filters=self._filters,
            limits=self._limits,
            concurrency=self._concurrency,
            invisible=self._invisible,
        )
        await running.start(until)
        return running

    async def check(self, topic: str) -> None:
        """Raise UsageError where the group would lose the messages of `topic`."""
        await check_reader(self._session, (topic,))

    async def declare(self, filters: Mapping[str, FilterText]) -> None:
        """Tell servers of the subscriptions as they are to be."""
        await self._session.declare(replace(self._session.declaration, subscriptions=dict(filters)))

    async def _make_group(self) -> None:
        await make_group(self._session.connection, self._group, next(iter(self._filters)))

    async def _taken_away(self, endpoint: Endpoint, command: pb.TelemetryCommand) -> None:
        if self.lite is not None:
            self.lite.taken_away(command.notify_unsubscribe_lite_command.lite_topic)

    async def _verify_message(self, endpoint: Endpoint, command: pb.TelemetryCommand) -> None:
        await verify_message(self._session, self._handlers, endpoint, command)

    async def _print_stacks(self, endpoint: Endpoint, command: pb.TelemetryCommand) -> None:
        await print_stacks(self._session, endpoint, command)
