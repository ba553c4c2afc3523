"""A push consumer over gRPC: the server delivers messages with leases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from aiorocketmq._consume.dead_letters import check_reader
from aiorocketmq._consume.group_creation import create_group
from aiorocketmq._consume.lite_topics import LiteTopics
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._core.settings import LITE_PUSH, Declaration, FilterText
from aiorocketmq._push.commands import Verifications, print_stacks
from aiorocketmq._push.consumption import Consumption
from aiorocketmq._push.interface import Parts
from aiorocketmq._session.retrying import tried_until
from aiorocketmq._session.session import Session
from aiorocketmq.hooks import Role
from aiorocketmq.wire import messages as pb


class GrpcPush:
    """The session, and the commands of servers to a push consumer."""

    def __init__(
        self, parts: Parts, *, invisible: float, create_group: bool, lite_topics: Iterable[str] | None
    ) -> None:
        self._parts = parts
        self._verifications = Verifications(parts.handlers)
        self._invisible = invisible
        self.client = self._session = Session(
            parts.endpoint,
            Declaration(
                client_type="PUSH_CONSUMER" if lite_topics is None else LITE_PUSH,
                group=parts.group,
                subscriptions=dict(parts.filters),
            ),
            role=Role.PUSH,
            hooks=parts.hooks,
            first_call=self._create_group if create_group else None,
            commands={
                "verify_message_command": self._verify_message,
                "print_thread_stack_trace_command": self._print_stacks,
                "notify_unsubscribe_lite_command": self._on_lite_topic_revoked,
            },
            options=parts.options,
        )
        self.lite = (
            None if lite_topics is None else LiteTopics(self._session, next(iter(parts.filters)), lite_topics)
        )

    async def begin(self, until: float) -> Consumption:
        """Start the session and receive."""
        session, parts = self._session, self._parts
        await session.start()
        try:
            await check_reader(session, parts.filters)
            if self.lite is not None:
                await tried_until(until, self.lite.begin, random=session.environment.random)
        except BaseException:
            await session.stop()
            raise
        running = Consumption(
            parts.life,
            session,
            parts.handlers,
            filters=parts.filters,
            limits=parts.limits,
            concurrency=parts.concurrency,
            invisible=self._invisible,
        )
        await running.start(until)
        return running

    async def check(self, topic: str) -> None:
        """Raise UsageError if the group would lose the messages of `topic`."""
        await check_reader(self._session, (topic,))

    async def declare(self, filters: Mapping[str, FilterText]) -> None:
        """Send the subscriptions to the servers."""
        await self._session.declare(replace(self._session.declaration, subscriptions=dict(filters)))

    async def _create_group(self) -> None:
        await create_group(self._session.network, self._parts.group, next(iter(self._parts.filters)))

    async def _on_lite_topic_revoked(self, endpoint: Endpoint, command: pb.TelemetryCommand) -> None:
        if self.lite is not None:
            self.lite.revoked_by_server(command.notify_unsubscribe_lite_command.lite_topic)

    async def _verify_message(self, endpoint: Endpoint, command: pb.TelemetryCommand) -> None:
        await self._verifications.verify(self._session, endpoint, command)

    async def _print_stacks(self, endpoint: Endpoint, command: pb.TelemetryCommand) -> None:
        await print_stacks(self._session, endpoint, command)
