"""Records what passes the door of one broker as a history that the reference model judges.

Requests count from their arrival, responses when they leave: what the network does to them afterwards is no business of
the broker, and no call of the history has an unknown outcome unless the broker itself died.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import METHODS
from aiorocketmq_conformance.explore.expressions import tags
from aiorocketmq_conformance.explore.producing import RESOLUTIONS, content_of, receipts_of
from aiorocketmq_conformance.model.calls import (
    UNKNOWN,
    Ack,
    Change,
    Check,
    Delivered,
    EndTransaction,
    Forward,
    GroupCreated,
    Instant,
    Occurrence,
    Outgoing,
    Pause,
    Receive,
    Restart,
    Send,
    Settings,
    TopicCreated,
)
from aiorocketmq_conformance.probe.answers import code_name, code_of, seconds_of

from tools.simulation.loop import START, VirtualLoop
from tools.simulation.network import Door, Served

if TYPE_CHECKING:
    from tools.simulation.broker import Machine

MARGIN = 2.0
"""Seconds that a receive needs in addition to its poll."""
DECISIONS = {resolution: decision for decision, resolution in RESOLUTIONS.items()}


class Arrival(NamedTuple):
    """One delivery."""

    client: str
    group: str
    body: str
    attempt: int


@dataclass(slots=True, eq=False)
class _Open:
    """A call in progress. Any: requests are of the class of their method."""

    request: Any
    begun: Instant
    client: str
    has_time: bool
    """Whether its deadline leaves time for its poll."""
    was_disturbed: bool = False
    """Its client has terminated, or the broker was away."""
    has_died: bool = False
    """The broker has died meanwhile."""
    response: Any = None
    status: Any = None
    deliveries: list[Delivered] = field(default_factory=list)

    @property
    def attempt(self) -> tuple[str, str]:
        """The client and attempt id of a receive."""
        return self.client, self.request.attempt_id

    @property
    def code(self) -> str:
        """The code of the response; UNKNOWN without one."""
        return UNKNOWN if self.response is None else code_of(self.response)


class BrokerDoor(Door):
    """The history of one broker, in the seconds of its own clock."""

    def __init__(self, machine: Machine, loop: VirtualLoop, *, latency: float) -> None:
        """A response leaves at most `latency` seconds after the broker has decided on it."""
        self.history: list[Occurrence] = []
        self.stored: dict[str, int] = {}
        """How often each message, by its body, may have been stored."""
        self._bodies: dict[str, str] = {}
        """Bodies by message id."""
        self._committed: set[str] = set()
        self.committed_again: set[str] = set()
        """Messages, by their bodies, whose second commit the broker has taken; real servers store them again."""
        self.accepted: dict[str, float] = {}
        """When each message, by its body, was accepted first."""
        self.unclear: set[str] = set()
        """Messages of sends during which the broker died."""
        self.arrivals: list[tuple[float, Arrival]] = []
        """All deliveries, by the time of the world."""
        self._machine = machine
        self._loop = loop
        self._latency = latency
        self._numbers = itertools.count(1)
        self._times: list[float] = []
        self._jumps: list[tuple[float, float]] = []
        self._pauses: list[tuple[float, float]] = []
        """Begin and end of each pause, by the time of the world."""
        self._open: dict[Served, _Open] = {}
        self._registered: set[str] = set()
        self._is_away = False
        self._attempts = Counter[tuple[str, str]]()
        """Receives so far with each attempt id of a client: a request may arrive twice."""
        self.copied: set[tuple[str, str]] = set()
        """Groups and bodies of messages that the broker redelivers once more than documented, as real servers do."""

    def instant(self) -> Instant:
        """Return the next step of the history, now."""
        self._times.append(self._loop.elapsed)
        return Instant(self._machine.clock.now() - START, next(self._numbers))

    def _after(self, begun: Instant) -> Instant:
        """Return the point after which the broker surely has decided what leaves now, in a call begun then."""
        now = self._loop.elapsed
        # A response that a pause has held back was decided before it.
        paused = sum(end - start for start, end in self._pauses if end >= now - self._latency)
        since = now - self._latency - paused
        jumped = sum(abs(seconds) for at, seconds in self._jumps if at >= since)
        at = max(begun.at, self._machine.clock.now() - START - (now - since) - jumped)
        return Instant(at, max(begun.step, bisect_left(self._times, since)))

    def _happened(self, event: Occurrence, begun: Instant | None = None) -> None:
        """Add what has happened since `begun`, or just now."""
        self.history.append(replace(event, begun=begun or self.instant(), ended=self.instant()))

    # Administration

    def topic_created(self, topic: str, kind: str, queues: int) -> None:
        """A topic was created."""
        self._happened(TopicCreated(topic=topic, type=kind, queues=queues))

    def group_created(self, group: str, ordered: bool, attempts: int, steps: tuple[float, ...]) -> None:
        """A group was created."""
        self._happened(GroupCreated(group=group, ordered=ordered, max_attempts=attempts, steps=steps))

    def stopping(self) -> Instant:
        """The broker begins to stop, gracefully or not, or to pause."""
        self._disturb("")
        self._is_away = True
        return self.instant()

    def _disturb(self, client: str) -> None:
        for call in self._open.values():
            call.was_disturbed = call.was_disturbed or client in ("", call.client)

    def started(self, begun: Instant, *, was_paused: bool) -> None:
        """The broker has been away since."""
        self._is_away = False
        if was_paused:
            self._pauses.append((self._times[begun.step - 1], self._loop.elapsed))
            self._happened(Pause(), begun)
        else:
            self._registered.clear()
            self._happened(Restart(), begun)

    def jumped(self, begun: Instant, seconds: float) -> None:
        """The clock was set: what became due meanwhile happens now."""
        self._jumps.append((self._loop.elapsed, seconds))
        self._happened(Pause(), begun)

    def lose_power(self) -> None:
        """The broker dies in the middle of its calls."""
        for served in tuple(self._open):
            self._open[served].has_died = True
            self.end(served)

    # Calls

    def begin(self, served: Served, payload: bytes) -> None:
        """A request has arrived; streams have several."""
        request: Any = METHODS[served.name].request.FromString(payload)
        client = dict(served.metadata).get("x-mq-client-id", "")
        has_time = True
        if served.name == "ReceiveMessage" and served.deadline is not None:
            poll = seconds_of(request.long_polling_timeout)
            has_time = served.deadline - self._loop.elapsed >= poll + MARGIN
        call = self._open[served] = _Open(request, self.instant(), client, has_time, self._is_away)
        if served.name == "ReceiveMessage":
            self._attempts[call.attempt] += 1
        if served.name == "NotifyClientTermination":
            self._disturb(client)

    def respond(self, served: Served, payload: bytes) -> None:
        """A response leaves."""
        call = self._open.get(served)
        if call is None:
            return
        response: Any = METHODS[served.name].response.FromString(payload)
        if served.name == "Telemetry":
            self._command(call, response)
        elif served.name == "ReceiveMessage":
            if response.HasField("status"):
                call.status = response.status
            elif response.HasField("message"):
                one = self._delivered(call, response.message)
                call.deliveries.append(one)
                arrival = Arrival(call.client, call.request.group.name, one.content.body, one.attempt)
                self.arrivals.append((self._loop.elapsed, arrival))
        else:
            call.response = response

    def end(self, served: Served) -> None:
        """A call has ended at the broker."""
        call = self._open.pop(served, None)
        write = {
            "SendMessage": self._send,
            "ReceiveMessage": self._receive,
            "AckMessage": self._ack,
            "ChangeInvisibleDuration": self._change,
            "ForwardMessageToDeadLetterQueue": self._forward,
            "EndTransaction": self._end_transaction,
        }.get(served.name)
        if call is not None and write is not None:
            write(call)

    def _add(self, call: _Open, event: Occurrence) -> None:
        """Add a call that ends now."""
        self._happened(replace(event, client=call.client), call.begun)

    def _command(self, call: _Open, command: Any) -> None:
        if command.HasField("settings") and command.settings.HasField("subscription"):
            settings = command.settings
            self._registered.add(call.client)
            self._add(
                call,
                Settings(
                    group=call.request.settings.subscription.group.name,
                    ordered=settings.subscription.fifo,
                    max_attempts=settings.backoff_policy.max_attempts,
                    steps=tuple(map(seconds_of, settings.backoff_policy.customized_backoff.next)),
                ),
            )
        elif command.HasField("recover_orphaned_transaction_command"):
            check, at = command.recover_orphaned_transaction_command, self.instant()
            self.history.append(
                Check(
                    begun=at,
                    ended=at,
                    client=call.client,
                    content=content_of(check.message),
                    transaction=check.transaction_id,
                )
            )

    def _send(self, call: _Open) -> None:
        code = call.code
        if code in ("OK", UNKNOWN):
            for message in call.request.messages:
                body = message.body.decode()
                self.stored[body] = self.stored.get(body, 0) + 1
                self._bodies[message.system_properties.message_id] = body
                if code == "OK":
                    self.accepted.setdefault(body, self._loop.elapsed)
                else:
                    self.unclear.add(body)
        self._add(
            call,
            Send(
                messages=tuple(map(self._outgoing, call.request.messages)),
                code=code,
                receipts=() if call.response is None else receipts_of(call.response),
            ),
        )

    def _outgoing(self, message: Any) -> Outgoing:
        system = message.system_properties
        recovery = system.orphaned_transaction_recovery_duration
        return Outgoing(
            content=content_of(message),
            type=pb.MessageType.Name(system.message_type),
            deliver_at=_due(system),
            recovery=float(recovery.seconds)
            if system.HasField("orphaned_transaction_recovery_duration")
            else None,
        )

    def _delivered(self, call: _Open, message: Any) -> Delivered:
        system = message.system_properties
        return Delivered(
            content=content_of(message),
            attempt=system.delivery_attempt,
            handle=system.receipt_handle,
            queue=system.queue_id,
            offset=system.queue_offset,
            stored=seconds_of(system.store_timestamp) - START,
            due=_due(system),
            after=self._after(call.begun),
            at=self.instant(),
        )

    def _receive(self, call: _Open) -> None:
        request = call.request
        code = UNKNOWN if call.status is None else code_name(call.status.code)
        is_empty = code in ("OK", "MESSAGE_NOT_FOUND")
        is_excused = call.client not in self._registered or call.was_disturbed or not call.has_time
        if not is_empty and code != UNKNOWN and is_excused:
            # Refused for want of settings, or of time, as it was under way for long.
            return
        self._add(
            call,
            Receive(
                group=request.group.name,
                topic=request.message_queue.topic.name,
                filter=tags(request.filter_expression.expression),
                batch=request.batch_size,
                invisible=seconds_of(request.invisible_duration),
                poll=seconds_of(request.long_polling_timeout),
                auto_renew=request.auto_renew,
                code=code,
                deliveries=tuple(call.deliveries),
                is_cut=code == UNKNOWN or call.was_disturbed or not call.has_time,
                has_died=call.has_died,
                repeats=self._attempts[call.attempt] > 1,
            ),
        )

    def _ack(self, call: _Open) -> None:
        request = call.request
        replied = () if call.response is None else tuple(call.response.entries)
        self._add(
            call,
            Ack(
                group=request.group.name,
                topic=request.topic.name,
                entries=tuple((each.message_id, each.receipt_handle) for each in request.entries),
                code=call.code,
                codes=tuple(code_of(each) for each in replied),
                echoed=tuple((each.message_id, each.receipt_handle) for each in replied) or None,
            ),
        )

    def _change(self, call: _Open) -> None:
        request = call.request
        self._add(
            call,
            Change(
                group=request.group.name,
                topic=request.topic.name,
                message=request.message_id,
                handle=request.receipt_handle,
                seconds=seconds_of(request.invisible_duration),
                suspend=request.suspend,
                code=call.code,
                new_handle=call.response.receipt_handle if call.code == "OK" else "",
            ),
        )

    def _forward(self, call: _Open) -> None:
        request = call.request
        self._add(
            call,
            Forward(
                group=request.group.name,
                topic=request.topic.name,
                message=request.message_id,
                handle=request.receipt_handle,
                code=call.code,
            ),
        )

    def _end_transaction(self, call: _Open) -> None:
        request = call.request
        body = self._bodies.get(request.message_id)
        decision = DECISIONS.get(request.resolution, "unspecified")
        if body is not None and decision == "commit" and call.code in ("OK", UNKNOWN):
            if body in self._committed:
                self.committed_again.add(body)
            self._committed.add(body)
        self._add(
            call,
            EndTransaction(
                topic=request.topic.name,
                message=request.message_id,
                transaction=request.transaction_id,
                decision=decision,
                code=call.code,
            ),
        )


def _due(system: Any) -> float | None:
    """Return the delivery time of a message in seconds of the history."""
    return seconds_of(system.delivery_timestamp) - START if system.HasField("delivery_timestamp") else None
