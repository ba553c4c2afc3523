"""Defects outside of the core, injected by a proxy in front of the fake: headers, frames, digests."""

from __future__ import annotations

from collections.abc import Iterable

from aiorocketmq.wire import messages as pb
from aiorocketmq_conformance.probe.proxy import Headers


def anonymous(headers: Headers) -> Headers:
    """Add a client id to calls without one."""
    if any(key == "x-mq-client-id" and value for key, value in headers):
        return headers
    return [*headers, ("x-mq-client-id", "anonymous")]


def no_time_stamp(frames: list[pb.ReceiveMessageResponse]) -> Iterable[pb.ReceiveMessageResponse]:
    """Drop the delivery time stamp."""
    return [frame for frame in frames if frame.WhichOneof("content") != "delivery_timestamp"]


def wrong_digest(frames: list[pb.ReceiveMessageResponse]) -> Iterable[pb.ReceiveMessageResponse]:
    """Send every body with the digest of an empty one."""
    for frame in frames:
        if frame.HasField("message"):
            frame.message.system_properties.body_digest.checksum = "D41D8CD98F00B204E9800998ECF8427E"
        yield frame


def everything_normal(frames: list[pb.ReceiveMessageResponse]) -> Iterable[pb.ReceiveMessageResponse]:
    """Send every message with type NORMAL."""
    for frame in frames:
        if frame.HasField("message"):
            frame.message.system_properties.message_type = pb.MessageType.NORMAL
        yield frame
