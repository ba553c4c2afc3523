"""A raw client of the v2 service: any field can be set to any value; the times of every call are recorded."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet
from contextlib import suppress
from typing import Any, Self

import grpc
import grpc.aio
from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import METHODS

from aiorocketmq_conformance.blocks import Step
from aiorocketmq_conformance.probe.answers import Delivery, Received, code_of, seconds_of, status_text
from aiorocketmq_conformance.probe.call_recorder import OnResponse, ignore
from aiorocketmq_conformance.probe.clock import STUCK, Clock
from aiorocketmq_conformance.probe.requests import duration, endpoints, filter_of, resource
from aiorocketmq_conformance.probe.telemetry import Telemetry
from aiorocketmq_conformance.probe.traffic import Call

_SERIALS = itertools.count()
# Deadline of a receive in addition to its poll: a shorter one loses responses on a busy server
# (live-broker-consumption 2).
DEADLINE_MARGIN = 7.0
_OPTIONS = (
    # Or a client would inherit the back-off of others that a restarted server has refused.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_retries", 0),
    # Reconnects to a restarted broker at once.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 200),
)


class CallFailed(AssertionError):
    """The call itself failed, although servers should respond with a status. Unless expected, it fails the case."""

    def __init__(self, method: str, code: str, details: str) -> None:
        super().__init__(f"{method} ended with {code}: {details}")
        self.code = code


class ProbeClient:
    """One client id on one connection. Used as `async with`, which terminates the client and disconnects."""

    def __init__(
        self,
        endpoint: str,
        client_id: str,
        clock: Clock,
        *,
        headers: Mapping[str, str | None] | None = None,
        require: Callable[[Step], None] = lambda step: None,
        unjudged: AbstractSet[str] = frozenset(),
        channel: Any = None,
    ):
        """`headers` override the usual ones; None omits a header.

        `require` raises Blocked for a step that is known to fail: called before each call that has to succeed.
        `unjudged` are ids of messages that are not part of the case. `channel` replaces the one to `endpoint`; Any: a
        `grpc.aio.Channel`, or what is used of one.
        """
        self.endpoint = endpoint
        """The endpoint."""
        self.client_id = client_id
        self.clock = clock
        self.require = require
        self.unjudged = unjudged
        self._channel: Any = channel or grpc.aio.insecure_channel(endpoint, options=_OPTIONS)
        self._headers: dict[str, str | None] = {
            "x-mq-client-id": client_id,
            "x-mq-language": "PYTHON",
            "x-mq-client-version": "5.0.8",
            "x-mq-protocol": "v2",
        }
        self._headers.update(headers or {})
        # A separate proxy returns these as the endpoints of routes (rule R3.5).
        self._endpoints = endpoints(endpoint)
        self._streams: list[Telemetry] = []
        self.stream: Telemetry | None = None
        """The newest telemetry stream."""
        self.settings: pb.Settings | None = None
        """The server's last response to this client's settings."""
        self._group = ""
        self._is_lite = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Terminate the client if the server knows it, end the streams, disconnect. Never raises."""
        if self.settings is not None:
            with suppress(grpc.aio.AioRpcError, CallFailed):
                await self.terminate(self._group)
        await self.disconnect()
        if (call_recorder := self.clock.traffic.call_recorder) is not None:
            call_recorder.terminated(self.client_id)

    async def disconnect(self) -> None:
        """Disconnect without termination, as a crashed process does."""
        self.settings = None
        for stream in self._streams:
            await stream.cut()
        self._streams.clear()
        await self._channel.close()

    async def open_stream(self) -> Telemetry:
        """Open another telemetry stream; it becomes the newest."""
        method = METHODS["Telemetry"]
        opened: Any = self._channel.stream_stream(  # Any: the stubs tie both directions to one type
            method.path, lambda message: message.SerializeToString(), method.response.FromString
        )
        call = opened(metadata=self._metadata())
        self.stream = Telemetry(call, self.client_id, self.clock)
        self._streams.append(self.stream)
        return self.stream

    async def close_streams(self, keep: int) -> None:
        """End all telemetry streams but the newest `keep`."""
        while len(self._streams) > keep:
            await self._streams.pop(0).cut()

    async def send_settings(self, settings: pb.Settings) -> pb.Settings:
        """Send `settings` (on a new stream if there is none yet) and return the server's.

        AssertionError if the response is not OK, StreamEnded if the server refused by ending the stream.
        """
        stream = self.stream or await self.open_stream()
        reply = await stream.settings(settings)
        assert reply.status.code == pb.Code.OK, f"settings were answered with {status_text(reply.status)}"
        self.settings = reply.settings
        self._group = settings.subscription.group.name
        self._is_lite = settings.client_type in (
            pb.ClientType.LITE_PUSH_CONSUMER,
            pb.ClientType.LITE_SIMPLE_CONSUMER,
        )
        if (call_recorder := self.clock.traffic.call_recorder) is not None:
            answered = pb.Settings()
            answered.CopyFrom(reply.settings)
            answered.client_type = settings.client_type
            answered.subscription.group.CopyFrom(settings.subscription.group)
            call_recorder.settings_accepted(self.client_id, answered)
        return reply.settings

    async def unary(self, name: str, request: Any, *, timeout: float = STUCK) -> Any:
        """Call a unary method and return its response. CallFailed if the call failed, AioRpcError without a
        server."""
        method = METHODS[name]
        traffic, started, outcome = self.clock.traffic, self.clock.now(), "cancelled"
        traffic.begin(waits_for_time=False)
        answered = self._noted(name, request)
        response = None
        try:
            call: Any = self._channel.unary_unary(  # Any: the stubs tie request and response to one type
                method.path, lambda message: message.SerializeToString(), method.response.FromString
            )
            response = await call(request, metadata=self._metadata(), timeout=timeout)
            outcome = code_of(response)
            return response
        except grpc.aio.AioRpcError as error:
            outcome = f"grpc:{error.code().name}"
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                raise
            raise CallFailed(name, error.code().name, error.details() or "") from error
        finally:
            answered(response)
            traffic.end(Call(name, self.client_id, started, self.clock.now(), outcome))

    async def send(self, *messages: pb.Message, timeout: float = STUCK) -> pb.SendMessageResponse:
        """Send all `messages` in one request."""
        reply: pb.SendMessageResponse = await self.unary(
            "SendMessage", pb.SendMessageRequest(messages=messages), timeout=timeout
        )
        return reply

    async def receive(
        self,
        topic: str,
        group: str,
        *,
        batch: int = 32,
        invisible: float | None = 30.0,
        poll: float | None = 5.0,
        expression: pb.FilterExpression | str = "*",
        auto_renew: bool = False,
        attempt_id: str | None = None,
        deadline: float | None = None,
        stop_after: int | None = None,
    ) -> Received:
        """Receive; return the response with the time of every frame.

        `deadline` (real seconds) is poll + 7 s by default; after `stop_after` messages the stream is cancelled. A
        failed stream is reported in `Received.error`, never raised.
        """
        request = pb.ReceiveMessageRequest(
            group=resource(group),
            message_queue=pb.MessageQueue(topic=resource(topic), id=-1),
            filter_expression=filter_of(expression),
            batch_size=batch,
            auto_renew=auto_renew,
        )
        if invisible is not None:
            duration(request.invisible_duration, invisible)
        if poll is not None:
            duration(request.long_polling_timeout, poll)
        if attempt_id is not None:
            request.attempt_id = attempt_id
        if deadline is None:
            deadline = (20.0 if poll is None else poll) + DEADLINE_MARGIN
        return await self.receive_raw(request, deadline=deadline, stop_after=stop_after)

    async def receive_raw(
        self, request: pb.ReceiveMessageRequest, *, deadline: float | None, stop_after: int | None = None
    ) -> Received:
        """Receive with a given request; `deadline` None sends none."""
        return await self.streamed("ReceiveMessage", request, deadline=deadline, stop_after=stop_after)

    async def streamed(
        self, name: str, request: Any, *, deadline: float | None, stop_after: int | None = None
    ) -> Received:
        """Call a method that returns a stream of statuses and messages, and collect its frames with their times."""
        traffic, started, outcome = self.clock.traffic, self.clock.now(), "cancelled"
        frames: list[tuple[Any, float]] = []
        error: str | None = None
        traffic.begin(waits_for_time=True)
        answered = self._noted(name, request)
        opened: Any = self._channel.unary_stream(  # Any: the stubs tie request and response to one type
            METHODS[name].path, lambda message: message.SerializeToString(), METHODS[name].response.FromString
        )
        call = None
        try:
            call = opened(request, metadata=self._metadata(), timeout=deadline)
            async for frame in call:
                traffic.steps += 1
                frames.append((frame, self.clock.now()))
                if stop_after and sum(each.HasField("message") for each, _ in frames) >= stop_after:
                    break
            outcome = "answered"
        except grpc.aio.AioRpcError as failure:
            error = failure.code().name
            outcome = f"grpc:{error}"
        finally:
            if call is not None:
                call.cancel()
            ended = self.clock.now()
            answered([frame for frame, _ in frames if outcome == "answered" or frame.HasField("message")])
            traffic.end(Call(name, self.client_id, started, ended, outcome, waits_for_time=True))
        return self._received(request, frames, started, ended, error)

    def _received(
        self, request: Any, frames: list[tuple[Any, float]], started: float, ended: float, error: str | None
    ) -> Received:
        kinds = [(frame.WhichOneof("content") or "nothing", at) for frame, at in frames]
        offsets = [frame.next_offset for frame, _ in frames if frame.WhichOneof("content") == "next_offset"]
        return Received(
            frames=tuple(kinds),
            statuses=tuple(frame.status for frame, _ in frames if frame.HasField("status")),
            deliveries=tuple(
                Delivery(frame.message, at, started, self.client_id, request.group.name, next(_SERIALS))
                for frame, at in frames
                if frame.HasField("message")
            ),
            started=started,
            ended=ended,
            error=error,
            next_offset=offsets[-1] if offsets else None,
            delivered_at=next(
                (
                    seconds_of(frame.delivery_timestamp)
                    for frame, _ in frames
                    if frame.WhichOneof("content") == "delivery_timestamp"
                ),
                None,
            ),
        )

    async def ack(
        self, topic: str, group: str, *entries: Delivery | tuple[str, str], lite_topics: Sequence[str] = ()
    ) -> pb.AckMessageResponse:
        """Ack deliveries, or pairs (message id, receipt handle), in one request; `lite_topics` are those of pairs."""
        request = pb.AckMessageRequest(group=resource(group), topic=resource(topic))
        for place, entry in enumerate(entries):
            id_, handle = (entry.id, entry.handle) if isinstance(entry, Delivery) else entry
            acked = pb.AckMessageEntry(message_id=id_, receipt_handle=handle)
            # Ordinary consumers of a parent topic are refused if they send the lite topic (observed on 5.5.0).
            if self._is_lite and isinstance(entry, Delivery):
                acked.lite_topic = entry.lite_topic
            elif lite_topics:
                acked.lite_topic = lite_topics[place]
            request.entries.append(acked)
        reply: pb.AckMessageResponse = await self.unary("AckMessage", request)
        return reply

    async def change_invisible(
        self,
        delivery: Delivery,
        seconds: float,
        *,
        topic: str | None = None,
        handle: str | None = None,
        suspend: bool = False,
    ) -> pb.ChangeInvisibleDurationResponse:
        """Change the invisible duration to `seconds` from now, with the delivery's handle unless another is given."""
        request = pb.ChangeInvisibleDurationRequest(
            group=resource(delivery.group),
            topic=resource(topic or delivery.topic),
            receipt_handle=delivery.handle if handle is None else handle,
            message_id=delivery.id,
            suspend=suspend,
        )
        if self._is_lite:
            request.lite_topic = delivery.lite_topic
        duration(request.invisible_duration, seconds)
        reply: pb.ChangeInvisibleDurationResponse = await self.unary("ChangeInvisibleDuration", request)
        return reply

    async def forward_to_dead_letters(
        self, delivery: Delivery, max_attempts: int, *, handle: str | None = None
    ) -> pb.ForwardMessageToDeadLetterQueueResponse:
        """Ask the server to move a delivery to the group's dead-letter topic."""
        request = pb.ForwardMessageToDeadLetterQueueRequest(
            group=resource(delivery.group),
            topic=resource(delivery.topic),
            receipt_handle=delivery.handle if handle is None else handle,
            message_id=delivery.id,
            delivery_attempt=delivery.attempt,
            max_delivery_attempts=max_attempts,
        )
        if self._is_lite:
            request.lite_topic = delivery.lite_topic
        reply: pb.ForwardMessageToDeadLetterQueueResponse = await self.unary(
            "ForwardMessageToDeadLetterQueue", request
        )
        return reply

    async def heartbeat(self, group: str | None = None, kind: int | None = None) -> pb.HeartbeatResponse:
        """Send a heartbeat; consumers with their group."""
        request = pb.HeartbeatRequest(client_type=pb.ClientType.PRODUCER if kind is None else kind)  # type: ignore[arg-type]  # wrong numbers allowed
        if group is not None:
            request.group.name = group
        reply: pb.HeartbeatResponse = await self.unary("Heartbeat", request)
        return reply

    async def terminate(self, group: str = "") -> pb.NotifyClientTerminationResponse:
        """Terminate the client; consumers with their group."""
        request = pb.NotifyClientTerminationRequest()
        if group:
            request.group.name = group
        reply: pb.NotifyClientTerminationResponse = await self.unary("NotifyClientTermination", request)
        return reply

    async def query_route(
        self, topic: str, *, namespace: str = "", endpoints: pb.Endpoints | None = None
    ) -> pb.QueryRouteResponse:
        """Query the topic's queues; by default as a client of this endpoint does."""
        request = pb.QueryRouteRequest(
            topic=resource(topic, namespace), endpoints=endpoints or self._endpoints
        )
        reply: pb.QueryRouteResponse = await self.unary("QueryRoute", request)
        return reply

    async def recall(self, topic: str, handle: str) -> pb.RecallMessageResponse:
        """Recall a delayed message."""
        request = pb.RecallMessageRequest(topic=resource(topic), recall_handle=handle)
        reply: pb.RecallMessageResponse = await self.unary("RecallMessage", request)
        return reply

    async def query_assignment(self, topic: str, group: str) -> pb.QueryAssignmentResponse:
        """Query the queues that this client may receive from."""
        reply: pb.QueryAssignmentResponse = await self.unary(
            "QueryAssignment",
            pb.QueryAssignmentRequest(
                topic=resource(topic), group=resource(group), endpoints=self._endpoints
            ),
        )
        return reply

    def _noted(self, name: str, request: Any) -> OnResponse:
        call_recorder = self.clock.traffic.call_recorder
        return ignore if call_recorder is None else call_recorder.call(self.client_id, name, request)

    def _metadata(self) -> Sequence[tuple[str, str]]:
        headers = [(name, value) for name, value in self._headers.items() if value is not None]
        return [*headers, ("x-mq-request-id", secrets.token_hex(8))]
