"""Sends over the remoting protocol; remoting-protocol.md 6.12 and 6.13, live-broker-remoting.md 3 and 6."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType

from aiorocketmq._core.endpoint import Address, endpoint_of
from aiorocketmq._core.remoting.batches import Member, encode_batch
from aiorocketmq._core.remoting.delays import delay_properties
from aiorocketmq._core.remoting.frame import MAX_FRAME, Frame
from aiorocketmq._core.remoting.properties import write_properties
from aiorocketmq._core.remoting.records import COMPRESSED, MalformedRecordError, Record, read_records
from aiorocketmq._core.route import MessageQueue, Route, RouteQueue
from aiorocketmq._core.settings import ServerSettings
from aiorocketmq._core.transactions import Resolution
from aiorocketmq._produce.interface import CheckHandler, Outgoing
from aiorocketmq._remoting import routes
from aiorocketmq._remoting.codes import RequestCode
from aiorocketmq._remoting.messages import SYSTEM_PROPERTIES, received, unpack
from aiorocketmq._remoting.session import RemotingSession
from aiorocketmq.errors import (
    IllegalMessageError,
    NotSupportedError,
    RocketMQError,
    UnreachableError,
    UsageError,
)
from aiorocketmq.message import Message, SendReceipt

logger = logging.getLogger("aiorocketmq.producer")

PREPARED = 0x4
"""The bit of SYSFLAG that a half message has."""
_ROOM = 64 * 1024
"""Bytes of a frame that are reserved for all but the body."""
_ENDS: Mapping[Resolution, str] = MappingProxyType({Resolution.COMMIT: "8", Resolution.ROLLBACK: "12"})


class RemotingSendCalls:
    """The requests of one producer, which brokers know as a member of the producer group `group`."""

    packs_batches = False
    on_check: CheckHandler

    def __init__(self, session: RemotingSession, group: str) -> None:
        self.client = self._session = session
        self.isolated = session.isolated
        # Only brokers know their limit of the body's size; servers check no types behind this port.
        self.settings = ServerSettings(max_body=MAX_FRAME - _ROOM, validate_message_type=False)
        self._group = group
        self._routes: dict[str, Route] = {}
        session.on_change.append(self._follow)
        session.requests[RequestCode.CHECK_TRANSACTION_STATE] = self._on_check_request

    @property
    def routes(self) -> Mapping[str, Route]:
        """The cached routes by topic."""
        return self._routes

    def is_unknown(self, topic: str) -> bool:
        """False: name servers know a new topic within milliseconds, so there is no need to wait for one."""
        return False

    async def route(self, topic: str) -> Route:
        """Return the route of `topic`; raises UnreachableError while all masters that have it are unavailable."""
        current = await self._session.route(topic)
        if not _has_master(current) and not _has_master(current := await self._session.look_up(topic)):
            raise UnreachableError(
                f"the masters of topic {topic!r} are unavailable, and replicas accept no messages",
                endpoint=str(self._session.access),
                topic=topic,
            )
        route = self._routes[topic] = _writable(topic, current)
        return route

    def _follow(self) -> None:
        for topic in self._routes:
            route = self._session.routes.get(topic)
            if route is not None and _has_master(route):  # otherwise it is tried where the masters were
                self._routes[topic] = _writable(topic, route)

    async def declare(self, topic: str) -> None:
        """Send a heartbeat to the brokers of `topic`, which check transactions with registered producers."""
        await self._session.add_topic(topic)

    async def store(self, outgoing: Outgoing, chosen: RouteQueue, attempts: int) -> SendReceipt:
        """Request once to store a message in `chosen`."""
        message, address = outgoing.message, chosen.endpoint.addresses[0]
        properties = await self._properties(outgoing, address)
        flags = (0 if outgoing.packed is None else COMPRESSED) | (0 if outgoing.half is None else PREPARED)
        answer = await self._session.call_at(
            address,
            RequestCode.SEND_MESSAGE_V2,
            self._fields(chosen, properties, flags),
            message.body if outgoing.packed is None else outgoing.packed,
            topic=message.topic,
            repeats=False,
        )
        offset = self._offset(answer, message.topic)
        self._session.note_success()
        transaction_id = answer.fields.get("transactionId") if outgoing.half is not None else None
        if outgoing.half is not None:
            fields = {
                "topic": message.topic,
                "tranStateTableOffset": str(offset),
                "commitLogOffset": str(self._log_offset(answer, message.topic)),
                "msgId": outgoing.message_id,
                "transactionId": transaction_id or outgoing.message_id,
                "bname": chosen.queue.broker,
            }
            outgoing.half.end = partial(self._end, address, fields)
        return SendReceipt(
            message_id=outgoing.message_id,
            topic=message.topic,
            queue=chosen.queue,
            offset=offset,
            attempts=attempts,
            recall_handle=answer.fields.get("recallHandle"),
            transaction_id=transaction_id,
            endpoint=str(address),
        )

    async def store_batch(
        self, batch: Sequence[Outgoing], chosen: RouteQueue, attempts: int
    ) -> Sequence[SendReceipt | RocketMQError]:
        """Request once to store many messages, all or none of which are stored."""
        topic, address = batch[0].message.topic, chosen.endpoint.addresses[0]
        members = [Member(each.message.body, _text(each.message, _plain(each))) for each in batch]
        answer = await self._session.call_at(
            address,
            RequestCode.SEND_BATCH_MESSAGE,
            {**self._fields(chosen, write_properties({"WAIT": "true"}), 0), "m": "true"},
            encode_batch(members),
            topic=topic,
            repeats=False,
        )
        first = self._offset(answer, topic)
        self._session.note_success()
        return [
            SendReceipt(
                message_id=each.message_id,
                topic=topic,
                queue=chosen.queue,
                offset=offset,
                attempts=attempts,
                endpoint=str(address),
            )
            for offset, each in enumerate(batch, first)
        ]

    async def recall(self, receipt: SendReceipt) -> None:
        """Request to recall a delayed message; brokers before 5.3.2 raise NotSupportedError."""
        if receipt.queue is None:
            raise UsageError(
                f"message {receipt.message_id} cannot be recalled: its receipt names no queue",
                topic=receipt.topic,
            )
        await self._session.call(
            receipt.queue,
            RequestCode.RECALL_MESSAGE,
            {"producerGroup": self._group, "recallHandle": receipt.recall_handle or ""},
        )

    # Requests

    def _fields(self, chosen: RouteQueue, properties: str, flags: int) -> dict[str, str]:
        queue = chosen.queue
        return {
            "a": self._group,
            "b": queue.topic,
            # The topic that a missing one is copied from: none, topics are not created on demand.
            "c": queue.topic,
            "d": "4",
            "e": str(queue.id),
            "f": str(flags),
            "g": str(round(self._session.environment.wall() * 1000)),
            "h": "0",
            "i": properties,
            "j": "0",
            "k": "false",
            "m": "false",
            "n": queue.broker,
        }

    async def _properties(self, outgoing: Outgoing, address: Address) -> str:
        message, half = outgoing.message, outgoing.half
        if message.lite_topic is not None:
            raise NotSupportedError(
                "messages with a lite topic travel over gRPC only: send this one to a proxy",
                endpoint=str(address),
                topic=message.topic,
            )
        system = _plain(outgoing)
        if message.message_group is not None:
            system["__SHARDINGKEY"] = message.message_group
        if message.priority is not None:
            system["_SYS_MSG_PRIORITY_"] = str(message.priority)
        if outgoing.due_us is not None:
            version = await self._session.version_of(address)
            delays = delay_properties(due_us=outgoing.due_us, delay=message.delay, version=version)
            if delays is None:
                raise NotSupportedError(
                    f"the broker at {address} is older than 5.0 and delays messages by 1, 5, 10 or 30 seconds, 1 to "
                    "10, 20 or 30 minutes, or 1 or 2 hours only: give one of these as delay",
                    endpoint=str(address),
                    topic=message.topic,
                )
            system.update(delays)
        if half is not None:
            system.update({"TRAN_MSG": "true", "PGROUP": self._group})
            if half.check_after is not None:
                system["CHECK_IMMUNITY_TIME_IN_SECONDS"] = str(round(half.check_after))
        return _text(message, system)

    async def _end(
        self, address: Address, fields: Mapping[str, str], resolution: Resolution, from_check: bool
    ) -> None:
        ended = {
            **fields,
            "producerGroup": self._group,
            "commitOrRollback": _ENDS[resolution],
            "fromTransactionCheck": str(from_check).lower(),
        }
        # A second commit would deliver the message again.
        await self._session.call_at(
            address, RequestCode.END_TRANSACTION, ended, topic=fields["topic"], repeats=False
        )

    # What servers ask

    def _on_check_request(self, address: Address, frame: Frame) -> None:
        try:
            (record,) = read_records(frame.body)
            fields = {
                "topic": record.topic,
                "tranStateTableOffset": frame.fields["tranStateTableOffset"],
                "commitLogOffset": frame.fields["commitLogOffset"],
            }
        except (MalformedRecordError, ValueError, KeyError) as error:
            logger.warning("%s checks a transaction in a malformed request: %r", address, error)
            return
        self._session.spawn(self._check, address, frame, record, fields, name="transaction check")

    async def _check(self, address: Address, frame: Frame, record: Record, fields: Mapping[str, str]) -> None:
        queue = MessageQueue(record.topic, frame.fields.get("bname", ""), record.queue_id)
        network = self._session.network
        message, is_packed = received(record, queue, None, network.max_decompressed_body)
        if is_packed:
            await unpack(message, record, network)
        transaction_id = frame.fields.get("transactionId") or message.message_id
        ended = {
            **fields,
            "msgId": message.message_id,
            "transactionId": transaction_id,
            "bname": queue.broker,
        }
        await self.on_check(str(address), message, transaction_id, partial(self._end, address, ended))

    # Answers

    def _offset(self, answer: Frame, topic: str) -> int:
        try:
            return answer.number("queueOffset")
        except ValueError as error:
            raise self._session.malformed(f"a send to topic {topic!r}", error) from error

    def _log_offset(self, answer: Frame, topic: str) -> int:
        """The commit log offset of the message: the end of the id that the broker assigned."""
        message_id = answer.fields.get("msgId", "")
        try:
            return int(message_id[-16:], 16)
        except ValueError as error:
            why = ValueError(f"its msgId is {message_id!r:.40}")
            raise self._session.malformed(f"a send to topic {topic!r}", why) from error


def _plain(outgoing: Outgoing) -> dict[str, str]:
    """The system properties that every message has."""
    message = outgoing.message
    properties = {"UNIQ_KEY": outgoing.message_id, "WAIT": "true"}
    if message.tag is not None:
        properties["TAGS"] = message.tag
    if message.keys:
        properties["KEYS"] = " ".join(message.keys)
    return properties


def _text(message: Message, system: Mapping[str, str]) -> str:
    """All properties as sent; IllegalMessageError if they cannot be encoded."""
    own = message.properties
    taken = SYSTEM_PROPERTIES.intersection(own)
    problem = f"property {min(taken)!r} is the system's own" if taken else None
    if problem is None:
        try:
            return write_properties({**own, **system})
        except ValueError as error:
            problem = str(error)
    raise IllegalMessageError(
        f"a message for topic {message.topic!r} cannot be sent: {problem}; {IllegalMessageError.remedy}",
        topic=message.topic,
    )


def _has_master(route: routes.Route) -> bool:
    return any(broker.master is not None for broker in route.brokers)


def _writable(topic: str, route: routes.Route) -> Route:
    """The queues of masters that take messages, by the name of their broker."""
    masters = {broker.name: broker.master for broker in route.brokers}
    return Route(
        topic,
        [
            RouteQueue(
                MessageQueue(topic, counts.broker, number),
                endpoint_of((master,)),
                writable=bool(counts.permission & routes.WRITABLE),
            )
            for counts in sorted(route.queues, key=lambda each: each.broker)
            if (master := masters.get(counts.broker)) is not None
            for number in range(counts.writable)
        ],
    )
