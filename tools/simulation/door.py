"""Records what passes the door of one broker as a history that the reference model judges.

Requests count from their arrival, responses when they leave: what the network does to them afterwards is no business of
the broker, and no call of the history has an unknown outcome unless the broker itself died.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import METHODS
from aiorocketmq_conformance.explore.producing import content_of
from aiorocketmq_conformance.model.calls import (
    UNKNOWN,
    Ack,
    Change,
    Check,
    Delivered,
    EndTransaction,
    Forward,
    GroupCreated,
    History,
    Instant,
    Outgoing,
    Pause,
    Receipt,
    Receive,
    Restart,
    Send,
    Settings,
    TopicCreated,
)
from aiorocketmq_conformance.probe.answers import code_name, code_of

from tools.simulation.loop import START, VirtualLoop
from tools.simulation.network import Door, Served

if TYPE_CHECKING:
    from tools.simulation.broker import Machine

MARGIN = 2.0
"""Seconds that a receive needs in addition to its poll."""
RESOLUTIONS = {
    pb.TransactionResolution.COMMIT: "commit",
    pb.TransactionResolution.ROLLBACK: "rollback",
}


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
    repeats: bool = False
    """An earlier receive had the same attempt id."""
    response: Any = None
    status: Any = None
    deliveries: list[Delivered] = field(default_factory=list)


class BrokerDoor(Door):
    """The history of one broker, in the seconds of its own clock."""

    def __init__(self, machine: Machine, loop: VirtualLoop, *, latency: float) -> None:
        """A response leaves at most `latency` seconds after the broker has decided on it."""
        self.history = History()
        self.stored: dict[str, int] = {}
        """How often each message, by its body, may have been stored."""
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
        self._open: dict[Served, _Open] = {}
        self._registered: set[str] = set()
        self._is_away = False
        self._attempts: set[tuple[str, str]] = set()

    def instant(self) -> Instant:
        """Return the next step of the history, now."""
        self._times.append(self._loop.elapsed)
        return Instant(self._machine.clock.now() - START, next(self._numbers))

    def _after(self, begun: Instant) -> Instant:
        """Return the point after which the broker surely has decided what leaves now, in a call begun then."""
        since = self._loop.elapsed - self._latency
        jumped = sum(abs(seconds) for at, seconds in self._jumps if at >= since)
        at = max(begun.at, self._machine.clock.now() - START - self._latency - jumped)
        return Instant(at, max(begun.step, bisect_left(self._times, since)))

    # Administration

    def topic_created(self, topic: str, kind: str, queues: int) -> None:
        """A topic was created."""
        begun = self.instant()
        self.history.add(
            TopicCreated(begun=begun, ended=self.instant(), topic=topic, type=kind, queues=queues)
        )

    def group_created(self, group: str, ordered: bool, attempts: int, steps: tuple[float, ...]) -> None:
        """A group was created."""
        begun = self.instant()
        self.history.add(
            GroupCreated(
                begun=begun,
                ended=self.instant(),
                group=group,
                ordered=ordered,
                max_attempts=attempts,
                steps=steps,
            )
        )

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
            self.history.add(Pause(begun=begun, ended=self.instant()))
        else:
            self._registered.clear()
            self.history.add(Restart(begun=begun, ended=self.instant()))

    def jumped(self, begun: Instant, seconds: float) -> None:
        """The clock was set: what became due meanwhile happens now."""
        self._jumps.append((self._loop.elapsed, seconds))
        self.history.add(Pause(begun=begun, ended=self.instant()))

    def lose_power(self) -> None:
        """The broker dies in the middle of its calls."""
        for served in tuple(self._open):
            self._close(served, UNKNOWN, has_died=True)

    # Calls

    def begin(self, served: Served, payload: bytes) -> None:
        """A request has arrived; streams have several."""
        request: Any = METHODS[served.name].request.FromString(payload)
        client = dict(served.metadata).get("x-mq-client-id", "")
        has_time = True
        if served.name == "ReceiveMessage" and served.deadline is not None:
            poll = request.long_polling_timeout.seconds + request.long_polling_timeout.nanos / 1e9
            has_time = served.deadline - self._loop.elapsed >= poll + MARGIN
        self._open[served] = _Open(request, self.instant(), client, has_time, self._is_away)
        if served.name == "ReceiveMessage":
            attempt = (client, request.attempt_id)
            self._open[served].repeats = attempt in self._attempts
            self._attempts.add(attempt)
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

    def end(self, served: Served, status: str) -> None:
        """A call has ended at the broker; the status is empty if its client is gone."""
        if served in self._open:
            self._close(served, status)

    def _close(self, served: Served, status: str, *, has_died: bool = False) -> None:
        call = self._open.pop(served)
        write = {
            "SendMessage": self._send,
            "ReceiveMessage": self._receive,
            "AckMessage": self._ack,
            "ChangeInvisibleDuration": self._change,
            "ForwardMessageToDeadLetterQueue": self._forward,
            "EndTransaction": self._end_transaction,
        }.get(served.name)
        if write is not None:
            write(call, UNKNOWN if call.response is None else code_of(call.response), has_died)

    def _command(self, call: _Open, command: Any) -> None:
        if command.HasField("settings") and command.settings.HasField("subscription"):
            settings = command.settings
            self._registered.add(call.client)
            self.history.add(
                Settings(
                    begun=call.begun,
                    ended=self.instant(),
                    client=call.client,
                    group=call.request.settings.subscription.group.name,
                    ordered=settings.subscription.fifo,
                    max_attempts=settings.backoff_policy.max_attempts,
                    steps=tuple(
                        each.seconds + each.nanos / 1e9
                        for each in settings.backoff_policy.customized_backoff.next
                    ),
                )
            )
        elif command.HasField("recover_orphaned_transaction_command"):
            check, at = command.recover_orphaned_transaction_command, self.instant()
            self.history.add(
                Check(
                    begun=at,
                    ended=at,
                    client=call.client,
                    content=content_of(check.message),
                    transaction=check.transaction_id,
                )
            )

    def _send(self, call: _Open, code: str, has_died: bool) -> None:
        entries = () if call.response is None else call.response.entries
        if code in ("OK", UNKNOWN):
            for message in call.request.messages:
                body = message.body.decode()
                self.stored[body] = self.stored.get(body, 0) + 1
                if code == "OK":
                    self.accepted.setdefault(body, self._loop.elapsed)
                else:
                    self.unclear.add(body)
        self.history.add(
            Send(
                begun=call.begun,
                ended=self.instant(),
                client=call.client,
                messages=tuple(map(self._outgoing, call.request.messages)),
                code=code,
                receipts=tuple(
                    Receipt(code_of(each) if each.HasField("status") else code, each.offset, each.transaction_id)
                    for each in entries
                )
                if code == "OK"
                else (),
            )
        )  # fmt: skip

    def _outgoing(self, message: Any) -> Outgoing:
        system = message.system_properties
        due = system.delivery_timestamp
        recovery = system.orphaned_transaction_recovery_duration
        return Outgoing(
            content=content_of(message),
            type=pb.MessageType.Name(system.message_type),
            deliver_at=due.seconds + due.nanos / 1e9 - START
            if system.HasField("delivery_timestamp")
            else None,
            recovery=float(recovery.seconds)
            if system.HasField("orphaned_transaction_recovery_duration")
            else None,
        )

    def _delivered(self, call: _Open, message: Any) -> Delivered:
        system = message.system_properties
        due, stored = system.delivery_timestamp, system.store_timestamp
        return Delivered(
            content=content_of(message),
            attempt=system.delivery_attempt,
            handle=system.receipt_handle,
            queue=system.queue_id,
            offset=system.queue_offset,
            stored=stored.seconds + stored.nanos / 1e9 - START,
            due=due.seconds + due.nanos / 1e9 - START if system.HasField("delivery_timestamp") else None,
            after=self._after(call.begun),
            at=self.instant(),
        )

    def _receive(self, call: _Open, code: str, has_died: bool) -> None:
        request = call.request
        code = UNKNOWN if call.status is None else code_name(call.status.code)
        is_empty = code in ("OK", "MESSAGE_NOT_FOUND")
        is_excused = call.client not in self._registered or call.was_disturbed or not call.has_time
        if not is_empty and code != UNKNOWN and is_excused:
            # Refused for want of settings, or of time, as it was under way for long.
            return
        self.history.add(
            Receive(
                begun=call.begun,
                ended=self.instant(),
                client=call.client,
                group=request.group.name,
                topic=request.message_queue.topic.name,
                filter=request.filter_expression.expression,
                batch=request.batch_size,
                invisible=request.invisible_duration.seconds + request.invisible_duration.nanos / 1e9,
                poll=request.long_polling_timeout.seconds + request.long_polling_timeout.nanos / 1e9,
                auto_renew=request.auto_renew,
                code=code,
                deliveries=tuple(call.deliveries),
                is_cut=code == UNKNOWN or call.was_disturbed or not call.has_time,
                has_died=has_died,
                repeats=call.repeats,
            )
        )

    def _ack(self, call: _Open, code: str, has_died: bool) -> None:
        request = call.request
        entries = tuple((each.message_id, each.receipt_handle) for each in request.entries)
        replied = () if call.response is None else tuple(call.response.entries)
        self.history.add(
            Ack(
                begun=call.begun,
                ended=self.instant(),
                client=call.client,
                group=request.group.name,
                topic=request.topic.name,
                entries=entries,
                code=code,
                codes=tuple(code_of(each) for each in replied),
                echoed=tuple((each.message_id, each.receipt_handle) for each in replied) or None,
            )
        )

    def _change(self, call: _Open, code: str, has_died: bool) -> None:
        request = call.request
        self.history.add(
            Change(
                begun=call.begun,
                ended=self.instant(),
                client=call.client,
                group=request.group.name,
                topic=request.topic.name,
                message=request.message_id,
                handle=request.receipt_handle,
                seconds=request.invisible_duration.seconds + request.invisible_duration.nanos / 1e9,
                suspend=request.suspend,
                code=code,
                new_handle=call.response.receipt_handle if code == "OK" else "",
            )
        )

    def _forward(self, call: _Open, code: str, has_died: bool) -> None:
        request = call.request
        self.history.add(
            Forward(
                begun=call.begun,
                ended=self.instant(),
                client=call.client,
                group=request.group.name,
                topic=request.topic.name,
                message=request.message_id,
                handle=request.receipt_handle,
                code=code,
            )
        )

    def _end_transaction(self, call: _Open, code: str, has_died: bool) -> None:
        request = call.request
        self.history.add(
            EndTransaction(
                begun=call.begun,
                ended=self.instant(),
                client=call.client,
                topic=request.topic.name,
                message=request.message_id,
                transaction=request.transaction_id,
                decision=RESOLUTIONS.get(request.resolution, "unspecified"),
                code=code,
            )
        )
