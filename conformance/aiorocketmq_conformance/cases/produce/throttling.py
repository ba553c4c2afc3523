"""What a server does to those who ask too often, and the library with it: `send.throttled` of inventory 4.2."""

from __future__ import annotations

import asyncio
from collections import Counter

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import Level, case
from aiorocketmq_conformance.fixture import Stage, on_stage
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import code_name
from aiorocketmq_conformance.tolerances import PROMPT

RATE = 5.0


@case(
    "send.throttled", rules=("R1.9", "13.1"), level=Level.EXTENSION, needs=("@topic", "@group", "@throttle")
)
@on_stage
async def throttled(stage: Stage) -> None:
    """Sends above the rate are refused as too many and not stored; later the same ones are taken."""
    topic = await stage.topic(1)
    consumer = await stage.consumer(topic)
    producer = await stage.producer(topic)
    await stage.target.special.limit_rate("SendMessage", RATE)
    messages = [requests.message(topic, f"m{n}", born_at=stage.clock.wall()) for n in range(20)]
    replies = await asyncio.gather(*map(producer.send, messages))
    codes = Counter(code_name(reply.status.code) for reply in replies)
    busy = code_name(_busy(stage))
    assert set(codes) == {"OK", busy}, f"20 sends at once with a rate of {RATE:g}: {dict(codes)}"
    assert codes["OK"] <= RATE + 1, f"{codes['OK']} of 20 sends at once were let through"
    refused = [
        message for message, reply in zip(messages, replies, strict=True) if reply.status.code != pb.Code.OK
    ]
    for message in refused:
        await stage.clock.sleep(1.0)
        again = await producer.send(message)
        assert code_name(again.status.code) == "OK", "refused, though nobody had sent for a second"
    await stage.target.special.limit_rate("SendMessage", None)
    seen = await stage.nothing_but(consumer, PROMPT)
    assert Counter(one.id for one in seen) == Counter(
        message.system_properties.message_id for message in messages
    )


def _busy(stage: Stage) -> int:
    return pb.Code.Value(str(stage.target.numbers["send.busy"]))
