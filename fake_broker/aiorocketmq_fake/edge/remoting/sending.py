"""Sends, send-backs and the ends of transactions (6.11 to 6.13)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.classic_model import Classic, SendBack
from aiorocketmq_fake.core.values.codes import Code, Refusal, Resolution
from aiorocketmq_fake.core.values.model import OutgoingMessage, SendOutcome
from aiorocketmq_fake.edge.address import Address
from aiorocketmq_fake.edge.driver import Driver
from aiorocketmq_fake.edge.remoting import properties
from aiorocketmq_fake.edge.remoting.frames import Frame
from aiorocketmq_fake.edge.remoting.messages import outgoing
from aiorocketmq_fake.edge.remoting.records import Member, host, message_id, read_batch
from aiorocketmq_fake.edge.remoting.requests import Act, Request, answer
from aiorocketmq_fake.edge.remoting_codes import RequestCode, ResponseCode, response_code

__all__ = ["Sending"]

_V2_NAMES = {
    "producerGroup": "a", "topic": "b", "defaultTopic": "c", "defaultTopicQueueNums": "d", "queueId": "e",
    "sysFlag": "f", "bornTimestamp": "g", "flag": "h", "properties": "i", "reconsumeTimes": "j", "unitMode": "k",
    "maxReconsumeTimes": "l", "batch": "m",
}  # fmt: skip
"""The second version of the header has one letter for each field."""
_RESOLUTIONS = {8: Resolution.COMMIT, 12: Resolution.ROLLBACK}
_HONOURS_MAX_RECONSUME_TIMES = 121
"""Older clients send a meaningless number."""
_REGION = {"MSG_REGION": "DefaultRegion"}
_TRACE = {**_REGION, "TRACE_ON": "true"}
_RECALL_CODES = frozenset({Code.FORBIDDEN, Code.TOPIC_NOT_FOUND})
"""Refused recalls with a response code of their own."""


class Sending:
    """The requests of producers, and send-backs of consumers."""

    def __init__(self, driver: Driver, address: Address) -> None:
        self._driver = driver
        self._core = driver.core
        self._address = address

    def acts(self) -> dict[int, Act]:
        """Return the handler of each request code."""
        return {
            RequestCode.SEND_MESSAGE: self.send,
            RequestCode.SEND_MESSAGE_V2: self.send_short,
            RequestCode.SEND_BATCH_MESSAGE: self.send_short,
            RequestCode.CONSUMER_SEND_MSG_BACK: self.send_back,
            RequestCode.RECALL_MESSAGE: self.recall,
            RequestCode.END_TRANSACTION: self.end_transaction,
        }

    def send_short(self, request: Request) -> Frame:
        """Store the message of a request with short field names."""
        fields = request.frame.fields
        long: Mapping[str, str] = {
            name: fields[letter] for name, letter in _V2_NAMES.items() if letter in fields
        }
        return self.send(Request(replace(request.frame, fields=long), request.peer))

    def send(self, request: Request) -> Frame:
        """Store a message, or with the field `batch` several; the request code says nothing about that."""
        topic = request.text("topic")
        if topic in limits.SYSTEM_TOPICS:
            text = f"Sending message to topic[{topic}] is forbidden."
            return answer(_TRACE, code=ResponseCode.NO_PERMISSION, remark=text)
        body = request.frame.body
        is_batch = request.truth("batch")
        text = request.frame.fields.get("properties", "")
        own = Member(body, request.number("flag", bits=32), properties.split(text))
        members = read_batch(body) if is_batch else (own,)
        messages = tuple(_message(request, topic, member) for member in members)
        is_creating = request.text("defaultTopic") == limits.DEFAULT_TOPIC
        queues = min(request.number("defaultTopicQueueNums", bits=32), limits.CLASSIC_QUEUES_MAX)
        try:
            outcomes = self._driver.run(
                self._core.send_classic,
                messages,
                client_id=request.peer.client_id or request.peer.address,
                new_queues=max(queues, 0) if is_creating else 0,
            )
        except Refusal as refused:
            return answer(_TRACE, code=response_code(refused.code), remark=refused.message)
        return self._sent(outcomes, own, is_batch=is_batch)

    def _sent(self, outcomes: tuple[SendOutcome, ...], own: Member, *, is_batch: bool) -> Frame:
        first = outcomes[0]
        place = host(self._address.endpoint)
        fields: dict[str, object] = {
            "msgId": ",".join(message_id(place, outcome.position) for outcome in outcomes),
            "queueId": first.queue_id,
            "queueOffset": first.offset,
            **_TRACE,
        }
        transaction_id = own.properties.get("UNIQ_KEY", "") if is_batch else first.message_id
        if transaction_id:
            fields["transactionId"] = transaction_id
        # A message that waits for a level cannot be recalled.
        if first.recall_handle and "DELAY" not in own.properties:
            fields["recallHandle"] = first.recall_handle
        return answer(fields)

    def send_back(self, request: Request) -> Frame:
        """Redeliver a message to its group later."""
        position = request.number("offset")
        limit = request.number("maxReconsumeTimes", -1, bits=32)
        back = SendBack(
            group=request.text("group"),
            position=position,
            delay_level=request.number("delayLevel", bits=32),
            max_reconsume_times=limit if request.frame.version >= _HONOURS_MAX_RECONSUME_TIMES else None,
            origin_id=message_id(host(self._address.endpoint), position),
        )
        self._driver.run(self._core.send_back, back, client_id=request.peer.client_id)
        return answer()

    def recall(self, request: Request) -> Frame:
        """Recall a delayed message."""
        handle = request.frame.fields.get("recallHandle", "")
        try:
            message_id = self._driver.run(
                self._core.recall_classic, request.text("topic"), handle, client_id=request.peer.client_id
            )
        except Refusal as refused:
            has_own = refused.code in _RECALL_CODES
            code = response_code(refused.code) if has_own else ResponseCode.ILLEGAL_OPERATION
            return answer(_REGION, code=code, remark=refused.message)
        return answer({**_REGION, "msgId": message_id})

    def end_transaction(self, request: Request) -> Frame | None:
        """Commit or roll back; a producer without a decision gets no answer."""
        kind = request.number("commitOrRollback", bits=32)
        if kind == 0:
            return None
        if kind not in _RESOLUTIONS:
            return answer(code=ResponseCode.SYSTEM_ERROR, remark=f"the transaction state {kind} is none")
        self._driver.run(
            self._core.end_half,
            request.number("tranStateTableOffset"),
            _RESOLUTIONS[kind],
            client_id=request.peer.client_id,
            from_check=request.truth("fromTransactionCheck"),
        )
        return answer()


def _message(request: Request, topic: str, member: Member) -> OutgoingMessage:
    classic = Classic(
        request.number("queueId", bits=32),
        member.flag,
        request.number("sysFlag", bits=32),
        max(request.number("reconsumeTimes", 0, bits=32), 0),
        request.number("maxReconsumeTimes", -1, bits=32),
    )
    born = request.number("bornTimestamp")
    return outgoing(topic, member.body, member.properties, classic, born, request.peer.address)
