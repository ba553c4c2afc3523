"""Calls that read a queue by offset and commit a group's progress; Apache's proxies do not serve them."""

from __future__ import annotations

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.probe.answers import Received
from aiorocketmq_conformance.probe.client import DEADLINE_MARGIN, ProbeClient
from aiorocketmq_conformance.probe.requests import duration, filter_of, resource


def queue_of(topic: str, queue: int, broker: str = "") -> pb.MessageQueue:
    """Return a queue of a topic."""
    return pb.MessageQueue(topic=resource(topic), id=queue, broker=pb.Broker(name=broker))


async def pull(
    client: ProbeClient,
    group: str,
    queue: pb.MessageQueue,
    offset: int,
    *,
    batch: int = 32,
    poll: float = 5.0,
    expression: str | pb.FilterExpression = "*",
) -> Received:
    """Read a queue from `offset`; return the response with the time of every frame."""
    request = pb.PullMessageRequest(
        group=resource(group),
        message_queue=queue,
        offset=offset,
        batch_size=batch,
        filter_expression=filter_of(expression),
    )
    duration(request.long_polling_timeout, poll)
    return await client.streamed("PullMessage", request, deadline=poll + DEADLINE_MARGIN)


async def update_offset(
    client: ProbeClient, group: str, queue: pb.MessageQueue, offset: int
) -> pb.UpdateOffsetResponse:
    """Commit a group's progress."""
    request = pb.UpdateOffsetRequest(group=resource(group), message_queue=queue, offset=offset)
    reply: pb.UpdateOffsetResponse = await client.unary("UpdateOffset", request)
    return reply


async def get_offset(client: ProbeClient, group: str, queue: pb.MessageQueue) -> pb.GetOffsetResponse:
    """Query it."""
    request = pb.GetOffsetRequest(group=resource(group), message_queue=queue)
    reply: pb.GetOffsetResponse = await client.unary("GetOffset", request)
    return reply


async def query_offset(
    client: ProbeClient, queue: pb.MessageQueue, policy: str, *, at: float | None = None
) -> pb.QueryOffsetResponse:
    """Query an offset: policy BEGINNING, END, or TIMESTAMP with `at` in Unix seconds."""
    request = pb.QueryOffsetRequest(
        message_queue=queue, query_offset_policy=pb.QueryOffsetPolicy.Value(policy)
    )
    if at is not None:
        request.timestamp.seconds = int(at)
        request.timestamp.nanos = int(at % 1 * 1e9)
    reply: pb.QueryOffsetResponse = await client.unary("QueryOffset", request)
    return reply
