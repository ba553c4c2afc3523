"""Several proxies before one broker: the `@proxies` rows of the inventory."""

from __future__ import annotations

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import Level, case
from aiorocketmq_conformance.fixture import LEASE, Consumer, Stage, on_stage
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import code_name
from aiorocketmq_conformance.tolerances import PROMPT, expiry, nack
from aiorocketmq_conformance.verdicts import NotApplicable

NEEDS = ("@topic", "@group", "@proxies")
# The shortest that real servers take.
SHORT = 10.0


async def _through_another_proxy(stage: Stage, like: Consumer) -> Consumer:
    """A client of the same group that has only ever spoken to the other proxy."""
    if stage.target.second_proxy is None:
        raise NotApplicable("the target has no second proxy")
    client = await stage.client(endpoint=stage.target.second_proxy)
    await client.present(requests.consumer_settings(like.group, {like.topic: like.expression}, like.kind))
    return Consumer(client, like.topic, like.group, like.expression, like.kind)


@case(
    "fault.proxy-switch", rules=("R6.1", "R6.8", "R6.10"), level=Level.EXTENSION, needs=NEEDS, timeout=200.0
)
@on_stage
async def proxy_switch(stage: Stage) -> None:
    """What came through one proxy is acked, or given back, through another: handles carry all that is needed."""
    here = await stage.consumer(await stage.topic(1))
    there = await _through_another_proxy(stage, here)
    sent = await stage.send(here.topic, "acked", "given back")
    held = {one.id: one for one in await here.take(2, invisible=LEASE, settle=False)}
    acked, given_back = (held[one.id] for one in sent)
    await there.ack(acked)
    window = nack(stage.target, SHORT)
    asked_at = stage.clock.now()
    reply = await there.client.change_invisible(given_back, SHORT)
    assert reply.status.code == pb.Code.OK, f"change answered {code_name(reply.status.code)}"
    (again,) = await there.take(1, within=window.high + PROMPT, settle=False)
    assert again.id == given_back.id, f"{again} came back after its ack"
    assert again.attempt == 2, f"attempt {again.attempt}"
    window.check(again.at - asked_at, "came back")
    # And the other way round.
    await here.ack(again)
    left = acked.at + expiry(stage.target, LEASE).high + PROMPT - stage.clock.now()
    assert not await stage.nothing_but(here, max(left, PROMPT)), (
        "acked through the other proxy, and delivered again"
    )
