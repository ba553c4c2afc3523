"""Defects of what the core does not decide, made by a proxy in front of the fake: headers, the order of frames."""

from __future__ import annotations

from collections.abc import Iterable

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.probe.proxy import Headers


def anonymous(headers: Headers) -> Headers:
    """Give callers without a client id one of the proxy's own."""
    if any(key == "x-mq-client-id" and value for key, value in headers):
        return headers
    return [*headers, ("x-mq-client-id", "anonymous")]


def no_time_stamp(frames: list[pb.ReceiveMessageResponse]) -> Iterable[pb.ReceiveMessageResponse]:
    """Drop the delivery time stamp."""
    return [frame for frame in frames if frame.WhichOneof("content") != "delivery_timestamp"]
