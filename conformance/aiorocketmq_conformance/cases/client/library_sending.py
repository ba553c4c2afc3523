"""How the library reports a response with different results for the messages of a batch: inventory 4.2."""

from __future__ import annotations

from aiorocketmq import Message, MessageTooLargeError, Producer, SendManyError, SendReceipt
from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import SHOULD, case
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe.proxy import ProxyFaults, faulty_proxy


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
