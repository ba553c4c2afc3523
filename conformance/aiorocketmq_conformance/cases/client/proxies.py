"""Several proxies of one broker: the `@proxies` rows of the inventory."""

from __future__ import annotations

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import EXTENSION, case
from aiorocketmq_conformance.consumer import LEASE, Consumer
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import code_of
from aiorocketmq_conformance.tolerances import PROMPT, expiry_window, nack_window
from aiorocketmq_conformance.verdicts import NotApplicable

NEEDS = ("@proxies",)
# The shortest lease that real servers grant.
SHORT = 10.0


async def _through_another_proxy(fixture: Fixture, like: Consumer) -> Consumer:
    """Return a client of the same group that is connected to the other proxy only."""
    if fixture.target.second_proxy is None:
        raise NotApplicable("the target has no second proxy")
    client = await fixture.client(endpoint=fixture.target.second_proxy)
    await client.send_settings(
        requests.consumer_settings(like.group, {like.topic: like.expression}, like.kind)
    )
    return Consumer(client, like.topic, like.group, like.expression, like.kind)


@case("fault.proxy-switch", rules=("R6.1", "R6.8", "R6.10"), level=EXTENSION, needs=NEEDS, timeout=200.0)
async def proxy_switch(fixture: Fixture) -> None:
    """A message received through one proxy can be acked, or made visible again, through another."""
    here = await fixture.consumer(await fixture.topic(1))
    there = await _through_another_proxy(fixture, here)
    sent = await fixture.send(here.topic, "acked", "nacked")
    leased = {one.id: one for one in await here.take(2, invisible=LEASE, settle=False)}
    acked, nacked = (leased[one.id] for one in sent)
    await there.ack(acked)
    window = nack_window(fixture.target, SHORT)
    asked_at = fixture.clock.now()
    reply = await there.client.change_invisible(nacked, SHORT)
    assert reply.status.code == pb.Code.OK, f"change was answered with {code_of(reply)}"
    (redelivery,) = await there.take(1, within=window.high + PROMPT, settle=False)
    assert redelivery.id == nacked.id, f"{redelivery} was redelivered after its ack"
    assert redelivery.attempt == 2, f"attempt {redelivery.attempt}"
    window.check(redelivery.at - asked_at, "redelivered")
    # And vice versa.
    await here.ack(redelivery)
    left = acked.at + expiry_window(fixture.target, LEASE).high + PROMPT - fixture.clock.now()
    assert not await fixture.deliveries_within(here, max(left, PROMPT)), (
        "acked through the other proxy, and delivered again"
    )
