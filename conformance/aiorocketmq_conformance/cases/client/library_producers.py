"""Producers of the client library: retries, transactions, batches, start and close; the `sdk` rows of the
inventory."""

from __future__ import annotations

from collections import Counter

from aiorocketmq import (
    Message,
    MessageTooLargeError,
    Producer,
    ReceivedMessage,
    Resolution,
    Retry,
    RocketMQError,
    SendManyError,
    SendReceipt,
    Timeouts,
)
from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import SHOULD, case
from aiorocketmq_conformance.cases.client.library_proxy import SDK, Once, through_proxy
from aiorocketmq_conformance.consumer import SHORT_POLL
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe.proxy import ProxyFaults, faulty_proxy


@case("send.retry-keeps-id", rules=("R4.14", "client-behaviour.md 9"), level=SHOULD, needs=SDK)
async def retry_keeps_id(fixture: Fixture) -> None:
    """A send whose first answer is lost succeeds on a later try, and every copy delivered has its one id."""
    topic, consumer = await fixture.subscribed(1)
    async with (
        through_proxy(fixture, ProxyFaults(unanswered=Once("SendMessage"))) as proxied,
        Producer(
            proxied["endpoint"],
            topics=[topic],
            retry=Retry(attempts=3),
            timeouts=Timeouts(request=1.0),
            address_map=proxied["address_map"],
        ) as producer,
    ):
        receipt = await producer.send(Message(topic, b"m"))
    deliveries = await consumer.receive_for(SHORT_POLL, settle=True)
    fixture.note("copies", len(deliveries))
    assert {one.id for one in deliveries} == {receipt.message_id}
    assert 1 <= len(deliveries) <= 3


@case("send.tx-not-retried", rules=("R9.3", "client-behaviour.md 9"), level=SHOULD, needs=(*SDK, "type.tx"))
async def tx_not_retried(fixture: Fixture) -> None:
    """A transactional send whose answer is lost is not sent again."""
    topic = await fixture.topic(1, type="TRANSACTION")
    calls: Counter[str] = Counter()

    def observe(name: str, request: bytes) -> None:
        calls[name] += 1

    async def check(_: ReceivedMessage) -> Resolution:
        return Resolution.ROLLBACK

    faults = ProxyFaults(unanswered={"SendMessage"}, instead=observe)
    async with (
        through_proxy(fixture, faults) as proxied,
        Producer(
            proxied["endpoint"],
            topics=[topic],
            transaction_checker=check,
            timeouts=Timeouts(request=1.0),
            address_map=proxied["address_map"],
        ) as producer,
    ):
        try:
            async with producer.transaction(Message(topic, b"m")):
                raise AssertionError("its send was never answered, and the block ran")
        except (RocketMQError, TimeoutError) as error:
            fixture.note("error", type(error).__name__)
    assert calls["SendMessage"] == 1, f"sent {calls['SendMessage']} times"


@case("life.sdk-no-topics", rules=("client-behaviour.md 1",), level=SHOULD, needs=SDK)
async def sdk_no_topics(fixture: Fixture) -> None:
    """A producer without declared topics starts, and its first send queries the route."""
    topic, consumer = await fixture.subscribed(1)
    async with Producer(fixture.target.endpoint) as producer:
        receipt = await producer.send(Message(topic, b"m"))
    (delivery,) = await consumer.take(1)
    assert delivery.id == receipt.message_id


@case("life.close-idempotent", rules=("R2.16",), level=SHOULD, needs=SDK)
async def close_idempotent(fixture: Fixture) -> None:
    """A closed producer can be closed again, and terminated once."""
    topic = await fixture.topic(1)
    calls: Counter[str] = Counter()

    def observe(name: str, request: bytes) -> None:
        calls[name] += 1

    async with through_proxy(fixture, ProxyFaults(instead=observe)) as proxied:
        producer = Producer(proxied["endpoint"], topics=[topic], address_map=proxied["address_map"])
        async with producer:
            await producer.send(Message(topic, b"m"))
        await producer.__aexit__(None, None, None)
    assert calls["NotifyClientTermination"] == 1


@case("send.batch-partial-status", rules=("R4.13",), level=SHOULD, needs=("sdk", "batch-send"))
async def batch_partial_status(fixture: Fixture) -> None:
    """Each message of a batch answered with MULTIPLE_RESULTS has its own receipt or its own error."""
    topic = await fixture.topic(1)
    batches: list[int] = []

    def one_is_bad(name: str, request: bytes) -> list[bytes] | None:
        if name != "SendMessage":
            return None
        messages = pb.SendMessageRequest.FromString(request).messages
        batches.append(len(messages))
        answer = pb.SendMessageResponse(status=pb.Status(code=pb.Code.MULTIPLE_RESULTS))
        for message in messages:
            bad = message.body == b"bad"
            entry = answer.entries.add(message_id=message.system_properties.message_id, offset=len(batches))
            entry.status.code = pb.Code.MESSAGE_BODY_TOO_LARGE if bad else pb.Code.OK
        return [answer.SerializeToString()]

    bodies = (b"good", b"bad", b"fine")
    outcomes: tuple[object, ...] = ()
    async with faulty_proxy(fixture.target.endpoint, ProxyFaults(instead=one_is_bad)) as endpoint:
        producer = Producer(endpoint, topics=[topic], linger=0.05, address_map=lambda address: endpoint)
        async with producer:
            try:
                await producer.send_many([Message(topic, body) for body in bodies])
            except SendManyError as error:
                outcomes = error.outcomes
    assert max(batches) == 3, f"sent in requests of {batches}"
    assert [type(one) for one in outcomes] == [SendReceipt, MessageTooLargeError, SendReceipt], f"{outcomes}"
