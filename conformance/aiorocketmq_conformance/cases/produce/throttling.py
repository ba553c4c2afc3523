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


@case("send.throttle-refill", rules=("13.1",), level=EXTENSION, needs=("@throttle",))
async def throttle_refill(fixture: Fixture) -> None:
    """A rate allows one second's calls at once, and after a wait as many as the wait is worth, up to that again."""
    topic = await fixture.topic(1)
    producer = await fixture.producer(topic)

    async def accepted() -> int:
        replies = [await producer.send(fixture.message(topic, "m")) for _ in range(10)]
        return sum(reply.status.code == pb.Code.OK for reply in replies)

    limit = fixture.target.privileged.limit_rate
    # Rate, calls at once, then waits and the calls that each is worth: refused ones cost nothing.
    for rate, at_once, waits in (
        (5.0, 5, ((0.1, 0), (0.1, 1), (0.4, 2), (0.6, 3), (30.0, 5))),
        (2.5, 2, ((0.2, 1), (0.8, 2), (30.0, 2))),
        (0.5, 1, ((1.9, 0), (0.1, 1), (30.0, 1))),
        (0.0, 0, ((30.0, 0),)),
    ):
        await limit("SendMessage", rate)
        counts = [await accepted()]
        for seconds, _ in waits:
            await fixture.clock.sleep(seconds)
            counts.append(await accepted())
        expected = [at_once, *(count for _, count in waits)]
        assert counts == expected, (
            f"of ten sends with a rate of {rate:g} {counts} were accepted, not {expected}"
        )
        routes = [code_of(await producer.query_route(topic)) for _ in range(3)]
        assert routes == ["OK"] * 3, f"calls of another kind are limited, too: {routes}"
    await limit("QueryRoute", 1.0)
    await limit("SendMessage", None)
    assert await accepted() == 10, "sends are still limited"
    routes = [code_of(await producer.query_route(topic)) for _ in range(2)]
    assert routes == ["OK", "TOO_MANY_REQUESTS"], f"two queries with a rate of 1 were answered with {routes}"


def _busy(fixture: Fixture) -> int:
    return pb.Code.Value(str(fixture.numbers["send.busy"]))
