"""Sends over gRPC: requests, receipts, and checks of transactions by servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from aiorocketmq._consume.collect import lone_message
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._core.route import Route, RouteQueue
from aiorocketmq._core.settings import ServerSettings
from aiorocketmq._core.transactions import Resolution
from aiorocketmq._produce.interface import CheckHandler, Outgoing, miscounted
from aiorocketmq._session import conversion
from aiorocketmq._session.calls import END_TRANSACTION, RECALL, SEND
from aiorocketmq._session.session import Session
from aiorocketmq.errors import RocketMQError, refusal
from aiorocketmq.message import SendReceipt
from aiorocketmq.wire import messages as pb

ACCEPTED = frozenset({int(pb.Code.OK), 0})
"""Codes of an entry that is stored; some servers omit it (R4.12)."""


class GrpcSendCalls:
    """The requests of one producer over gRPC."""

    packs_batches = True
    on_check: CheckHandler

    def __init__(self, session: Session) -> None:
        self.client = self._session = session
        self.isolated = session.isolated

    @property
    def routes(self) -> Mapping[str, Route]:
        """The cached routes by topic."""
        return self._session.routes.cached

    @property
    def settings(self) -> ServerSettings:
        """The current settings."""
        return self._session.settings

    def is_unknown(self, topic: str) -> bool:
        """Whether a server has recently reported that `topic` does not exist."""
        return topic in self._session.routes.unknown

    async def route(self, topic: str) -> Route:
        """Return the route of `topic`."""
        return await self._session.route(topic)

    async def declare(self, topic: str) -> None:
        """Send settings with a topic that was not declared, because servers look producers up by topic."""
        declaration = self._session.declaration
        if topic not in declaration.topics:
            self._session.declaration = replace(declaration, topics=(*declaration.topics, topic))
            await self._session.write_settings()

    async def store(self, outgoing: Outgoing, chosen: RouteQueue, attempts: int) -> SendReceipt:
        """Request once to store a message in `chosen`."""
        session, half, topic = self._session, outgoing.half, outgoing.message.topic
        request = pb.SendMessageRequest()
        self._fill(request.messages.add(), outgoing, chosen, session.environment.wall())
        response = await session.call(chosen.endpoint, SEND, request, topic=topic)
        if len(response.entries) != 1:
            raise miscounted(len(response.entries), 1, chosen, topic)
        entry = response.entries[0]
        if entry.status.code not in ACCEPTED:
            raise refusal(
                entry.status.code,
                entry.status.message,
                what=SEND.name,
                endpoint=str(chosen.endpoint),
                topic=topic,
                topic_known=True,
            )
        session.note_success()
        if half is not None:
            transaction_id = entry.transaction_id or half.message_id
            half.end = partial(self._end, chosen.endpoint, topic, half.message_id, transaction_id)
        return SendReceipt(
            message_id=entry.message_id or outgoing.message_id,
            topic=topic,
            queue=chosen.queue,
            offset=entry.offset,
            attempts=attempts,
            recall_handle=entry.recall_handle or None,
            transaction_id=entry.transaction_id or None,
            endpoint=str(chosen.endpoint),
        )

    async def store_batch(
        self, batch: Sequence[Outgoing], chosen: RouteQueue, attempts: int
    ) -> Sequence[SendReceipt | RocketMQError]:
        """Request once to store many messages; most servers return one receipt for all (R4.15): its offset is that of
        the first message, and its id is none of theirs."""
        session, topic, count = self._session, batch[0].message.topic, len(batch)
        request = pb.SendMessageRequest()
        now = session.environment.wall()
        for each in batch:
            self._fill(request.messages.add(), each, chosen, now)
        response = await session.call(chosen.endpoint, SEND, request, topic=topic)
        entries, endpoint = response.entries, str(chosen.endpoint)
        for_all = len(entries) == 1
        if not for_all and len(entries) != count:
            raise miscounted(len(entries), count, chosen, topic)
        outcomes: list[SendReceipt | RocketMQError] = []
        for place, each in enumerate(batch):
            entry = entries[0 if for_all else place]
            if entry.status.code not in ACCEPTED:
                error = refusal(
                    entry.status.code,
                    entry.status.message,
                    what=SEND.name,
                    endpoint=endpoint,
                    topic=topic,
                    topic_known=True,
                )
                if for_all:
                    raise error
                outcomes.append(error)
                continue
            outcomes.append(
                SendReceipt(
                    message_id=each.message_id,
                    topic=topic,
                    queue=chosen.queue,
                    offset=entry.offset + place if for_all else entry.offset,
                    attempts=attempts,
                    transaction_id=None if for_all else entry.transaction_id or None,
                    endpoint=endpoint,
                )
            )
        session.note_success()
        return outcomes

    async def recall(self, receipt: SendReceipt) -> None:
        """Request to recall a delayed message."""
        session = self._session
        request = pb.RecallMessageRequest(
            topic=session.resource(receipt.topic), recall_handle=receipt.recall_handle or ""
        )
        await session.call(session.access, RECALL, request, topic=receipt.topic)

    async def on_command(self, endpoint: Endpoint, command: pb.TelemetryCommand) -> None:
        """A server checks a transaction, of this producer or of one that has died."""
        check = command.recover_orphaned_transaction_command
        message = await lone_message(self._session, check.message, endpoint)
        end = partial(self._end, endpoint, message.topic, message.message_id, check.transaction_id)
        await self.on_check(str(endpoint), message, check.transaction_id, end)

    async def _end(
        self,
        endpoint: Endpoint,
        topic: str,
        message_id: str,
        transaction_id: str,
        resolution: Resolution,
        from_check: bool,
    ) -> None:
        session = self._session
        request = conversion.end_to_wire(
            session.resource(topic), message_id, transaction_id, resolution, from_check=from_check
        )
        await session.call(endpoint, END_TRANSACTION, request, topic=topic)

    def _fill(self, travelling: pb.Message, outgoing: Outgoing, chosen: RouteQueue, now: float) -> None:
        session, half = self._session, outgoing.half
        conversion.fill_message(
            travelling,
            outgoing.message,
            message_id=outgoing.message_id,
            now=now,
            host=session.environment.host,
            queue_id=chosen.queue.id,
            namespace=session.namespace,
            message_type=outgoing.kind,
            due_us=outgoing.due_us,
            check_after=None if half is None else half.check_after,
            packed=outgoing.packed,
        )
