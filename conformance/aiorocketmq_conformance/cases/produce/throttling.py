"""Throttled sends, of probes and of the client library: `send.throttled` of inventory 4.2."""

from __future__ import annotations

import asyncio
from collections import Counter

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import EXTENSION, case
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe.answers import code_name, code_of
from aiorocketmq_conformance.tolerances import PROMPT

RATE = 5.0


@case("send.throttled", rules=("R1.9", "13.1"), level=EXTENSION, needs=("@throttle",))
async def throttled(fixture: Fixture) -> None:
    """Sends above the rate limit are refused and not stored; later ones are accepted."""
    topic, consumer = await fixture.subscribed(1)
    producer = await fixture.producer(topic)
    await fixture.target.privileged.limit_rate("SendMessage", RATE)
    messages = [fixture.message(topic, f"m{n}") for n in range(20)]
    replies = await asyncio.gather(*map(producer.send, messages))
    codes = Counter(code_of(reply) for reply in replies)
    busy = code_name(_busy(fixture))
    assert set(codes) == {"OK", busy}, f"20 sends at once with a rate of {RATE:g}: {dict(codes)}"
    assert codes["OK"] <= RATE + 1, f"{codes['OK']} of 20 sends at once were accepted"
    refused = [
        message for message, reply in zip(messages, replies, strict=True) if reply.status.code != pb.Code.OK
    ]
    for message in refused:
        await fixture.clock.sleep(1.0)
        retried = await producer.send(message)
        assert code_of(retried) == "OK", "refused, although nothing was sent for a second"
    await fixture.target.privileged.limit_rate("SendMessage", None)
    deliveries = await fixture.deliveries_within(consumer, PROMPT)
    assert Counter(one.id for one in deliveries) == Counter(
        message.system_properties.message_id for message in messages
    )


def _busy(fixture: Fixture) -> int:
    return pb.Code.Value(str(fixture.numbers["send.busy"]))
