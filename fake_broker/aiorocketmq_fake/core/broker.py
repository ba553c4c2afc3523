"""The broker: every command of the protocol as a method; `commands` decides.

Time is an argument: `now` is Unix seconds, never less than the last one given; its grain is a millisecond. Every
command first fires all timers due up to `now`, in order of time. A command either takes effect as a whole or raises
`Refusal` and leaves the state as it was. `take_outputs()` returns what goes to others than the caller,
`take_events()` what happened.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar, TypeVarTuple

from aiorocketmq_fake.core.commands import salvage
from aiorocketmq_fake.core.commands.access import Access, AnySignature, Need, User
from aiorocketmq_fake.core.commands.catalogue import Catalogue
from aiorocketmq_fake.core.commands.checks import Checks
from aiorocketmq_fake.core.commands.classic import ClassicBroker
from aiorocketmq_fake.core.commands.clients import Clients
from aiorocketmq_fake.core.commands.dead_letters import DeadLetters
from aiorocketmq_fake.core.commands.delays import Delays
from aiorocketmq_fake.core.commands.leasing import Leasing
from aiorocketmq_fake.core.commands.lite_reading import LiteReading
from aiorocketmq_fake.core.commands.lite_subscriptions import LiteSubscriptions
from aiorocketmq_fake.core.commands.lite_topics import LiteTopics
from aiorocketmq_fake.core.commands.members import Members
from aiorocketmq_fake.core.commands.offset_resets import OffsetResets
from aiorocketmq_fake.core.commands.offsets import Offsets
from aiorocketmq_fake.core.commands.polls import PollBook
from aiorocketmq_fake.core.commands.producing import Producing
from aiorocketmq_fake.core.commands.pulling import Pulling
from aiorocketmq_fake.core.commands.queue_locks import QueueLocks
from aiorocketmq_fake.core.commands.receiving import Receiving
from aiorocketmq_fake.core.commands.redelivery import Redelivery
from aiorocketmq_fake.core.commands.retention import Retention
from aiorocketmq_fake.core.commands.routes import query_assignment, query_route
from aiorocketmq_fake.core.commands.salvage import GroupPosition, Salvaged
from aiorocketmq_fake.core.commands.send_back import SendingBack
from aiorocketmq_fake.core.commands.settling import Settling
from aiorocketmq_fake.core.commands.storing import Storage
from aiorocketmq_fake.core.commands.throttling import Throttle
from aiorocketmq_fake.core.commands.transactions import Transactions
from aiorocketmq_fake.core.records.half_messages import HalfMessages
from aiorocketmq_fake.core.records.topics import Entries, NewEntries, Topic
from aiorocketmq_fake.core.state import State, milliseconds
from aiorocketmq_fake.core.values.codes import OffsetPolicy, Refusal
from aiorocketmq_fake.core.values.events import Event, Refused
from aiorocketmq_fake.core.values.model import (
    AckRequest,
    AckResult,
    ChangeRequest,
    ClientSettings,
    Command,
    EndTransactionRequest,
    ForwardRequest,
    GroupConfig,
    LiteSyncRequest,
    MergedSettings,
    OffsetQuery,
    OutgoingMessage,
    Output,
    Parked,
    PrintStackTrace,
    Pulled,
    PullRequest,
    Received,
    ReceiveRequest,
    ReconnectEndpoints,
    RouteEntry,
    SendOutcome,
    StoredMessage,
    TopicConfig,
    VerifyMessage,
)
from aiorocketmq_fake.core.values.profile import Profile

Arguments = TypeVarTuple("Arguments")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Parts:
    """Factories of the parts that a test may replace, to inject a fault."""

    receiving: type[Receiving] = Receiving
    leasing: type[Leasing] = Leasing
    redelivery: type[Redelivery] = Redelivery
    checks: type[Checks] = Checks


class Broker(ClassicBroker):
    """One broker node with its proxy, in memory."""

    def __init__(
        self,
        profile: Profile,
        *,
        now: float,
        rng: random.Random,
        host: str = "127.0.0.1",
        port: int = 0,
        name: str = "broker-a",
        cluster: str = "DefaultCluster",
        history: int = 100_000,
        parts: Parts = Parts(),
    ) -> None:
        self.profile = profile
        self.host = host
        self.port = port
        self.name = name
        self.cluster = cluster
        state = self._state = State(profile, milliseconds(now), rng, name, cluster, history)
        self.access = Access(state)
        """The users, and whether calls are checked."""
        self.throttle = Throttle(state)
        """Rate limits of calls."""
        storage = Storage(state)
        self._receive_polls: PollBook[ReceiveRequest] = PollBook(state)
        self._pull_polls: PollBook[PullRequest] = PollBook(state)
        dead_letters = DeadLetters(state, storage)
        self._redelivery = parts.redelivery(state, storage, self._receive_polls, dead_letters)
        self._leasing = parts.leasing(state, self._receive_polls, self._redelivery)
        self._subscriptions = LiteSubscriptions(state)
        self._lite = LiteTopics(state, self._leasing, self._subscriptions)
        reading = LiteReading(state, self._lite, self._subscriptions)
        self._receiving = parts.receiving(state, self._receive_polls, dead_letters, self._leasing, reading)
        self._subscriptions.on_change(self._receive_polls.wake)
        self._pulling = Pulling(state, self._pull_polls)
        storage.listeners += [self._lite.index, self._on_stored]
        self._settling = Settling(state, dead_letters, self._leasing)
        self._clients = Clients(state, self._leasing, self._subscriptions)
        self._offsets = Offsets(state, self._receive_polls, self._leasing)
        self._delays = Delays(state, storage)
        self._half_messages = HalfMessages()
        self._members = Members(state, storage)
        self._locks = QueueLocks(state)
        self._resets = OffsetResets(self._offsets)
        self._sending_back = SendingBack(state, storage, dead_letters)
        checks = parts.checks(state, self._half_messages, self._members)
        self._transactions = Transactions(state, storage, self._half_messages, checks, self._delays.add)
        self._producing = Producing(state, storage, self._delays, self._transactions, self._lite)
        self._retention = Retention(state, self._lite.trim)
        self._catalogue = Catalogue(
            state, self._receiving, self._pulling, self._leasing, self._delays, self._transactions, self._lite
        )

    @property
    def now(self) -> float:
        """The time of the last command or timer, Unix seconds."""
        return self._state.at

    # Keeping

    def mark(self) -> tuple[int, int, int]:
        """Return three counters of the broker's progress: equal histories have equal marks."""
        return self._state.mark()

    def set_entries_factory(self, new_entries: NewEntries) -> None:
        """Set the container of messages for queues made from now on."""
        self._state.new_entries = new_entries

    def entries(self, topic: str) -> tuple[Entries, ...]:
        """The message containers of a topic's queues; none for unknown topics."""
        return salvage.entries(self._state, topic)

    def group_positions(self) -> list[GroupPosition]:
        """The progress of groups, before messages in flight."""
        return salvage.group_positions(self._state)

    def rebuild(
        self,
        topics: Iterable[Salvaged],
        groups: Iterable[GroupConfig],
        group_positions: Iterable[GroupPosition],
    ) -> None:
        """Fill this empty broker with salvaged data; offsets close up over lost messages."""
        salvage.rebuild(self._state, topics, groups, group_positions)

    def transient(self) -> dict[str, object]:
        """Parts that belong to this process and are not stored: the profile, and the history of deliveries."""
        return {"profile": self.profile, "history": self._state.history}

    def clear_deliveries(self) -> None:
        """Clear the history of deliveries."""
        self._state.history.clear()

    # Time and outputs

    def advance(self, now: float) -> None:
        """Fire all timers due up to `now`, in order of time. Their effects carry their own time, not `now`."""
        self._advance(milliseconds(now))

    def leap(self, *, now: float) -> None:
        """Continue at `now` after a pause: all due timers fire at once, as of `now`."""
        self._state.now = max(self._state.now, milliseconds(now))
        self._advance(self._state.now)

    def next_deadline(self) -> float | None:
        """Return the next deadline, None if nothing is pending. Never in the past after `advance`."""
        at = self._state.timers.next()
        return None if at is None else at / 1000

    @property
    def has_outputs(self) -> bool:
        """Whether `take_outputs` would return any."""
        return bool(self._state.outputs)

    def take_outputs(self) -> tuple[Output, ...]:
        """Return answers of parked polls and commands for clients since the last call, oldest first."""
        outputs = self._state.outputs
        if not outputs:
            return ()
        self._state.outputs = []
        return tuple(outputs)

    def take_events(self) -> tuple[Event, ...]:
        """Return the events since the last call, oldest first."""
        events = self._state.events
        if not events:
            return ()
        self._state.events = []
        return tuple(events)

    # Administration

    def create_topic(self, config: TopicConfig, *, now: float) -> None:
        """Create a topic. Refused: illegal name (ILLEGAL_TOPIC), exists already or queue counts off limits
        (BAD_REQUEST)."""
        self._run("CreateTopic", "", now, self._catalogue.create_topic, config)

    def update_topic(self, config: TopicConfig, *, now: float) -> None:
        """Replace a topic's settings; removed queues keep their messages until they are added again.

        Refused: TOPIC_NOT_FOUND.
        """
        self._run("UpdateTopic", "", now, self._catalogue.update_topic, config)

    def delete_topic(self, name: str, *, now: float) -> None:
        """Delete a topic with its messages, leases and offsets; its parked polls are answered empty. Refused:
        TOPIC_NOT_FOUND."""
        self._run("DeleteTopic", "", now, self._catalogue.delete_topic, name)

    def create_group(self, config: GroupConfig, *, now: float) -> None:
        """Create a consumer group. Refused: illegal name (ILLEGAL_CONSUMER_GROUP), exists already
        (BAD_REQUEST)."""
        self._run("CreateGroup", "", now, self._catalogue.create_group, config)

    def update_group(self, config: GroupConfig, *, now: float) -> None:
        """Replace a group's settings; they hold from the next call on. Refused: CONSUMER_GROUP_NOT_FOUND."""
        self._run("UpdateGroup", "", now, self._catalogue.update_group, config)

    def delete_group(self, name: str, *, now: float) -> None:
        """Delete a group with its offsets, leases and retries; dead letters stay. Refused:
        CONSUMER_GROUP_NOT_FOUND."""
        self._run("DeleteGroup", "", now, self._catalogue.delete_group, name)

    def put_user(self, user: User, *, now: float) -> None:
        """Add or replace a user; from the first one on every call must be signed (14)."""
        self._run("PutUser", "", now, self.access.put, user)

    def remove_user(self, access_key: str, *, now: float) -> None:
        """Remove a user; calls stay checked. Refused: NOT_FOUND."""
        self._run("RemoveUser", "", now, self.access.remove, access_key)

    def limit_rate(self, rpc: str, per_second: float | None, *, now: float) -> None:
        """Limit the calls per second of an RPC (13.1); None lifts the limit. ValueError for an invalid value."""
        self._advance(milliseconds(now))
        self.throttle.limit(rpc, per_second)

    def restart(self, *, now: float) -> None:
        """Drop the state of the proxy: clients, settings, renewals, transaction memory, parked polls (R12.7).

        Topics, messages, offsets, leases, order records and delayed messages stay. No outputs: the callers are
        disconnected. All that happens before the time moves: a proxy does nothing more while its broker is down.
        """
        self._receive_polls.clear()
        self._pull_polls.clear()
        self._clients.forget_all()
        self._members.forget_all()
        self._locks.forget_all()
        self._resets.forget_all()
        self._leasing.stop_all_renewals()
        self._transactions.forget_decisions()
        self._advance(milliseconds(now))
        self._state.outputs = []

    # Retention

    def set_retention(
        self, *, now: float, retention: float | None = None, disk_used: float | None = None
    ) -> None:
        """Set how many seconds messages are kept, and how full the disk is (0 to 1); None leaves it (11).

        Above 0.75 expired messages are deleted at any hour, above 0.85 the oldest tenth of the log at every cleaning,
        above 0.90 producers are refused, too.
        """
        self._run("Keep", "", now, self._retention.set, retention, disk_used)

    def delete_expired(self, *, now: float) -> int:
        """Delete expired messages at any hour; return how many copies were deleted (R11.5)."""
        return self._run("Clean", "", now, self._retention.clean)

    # Sessions and routes

    def check_access(
        self, command: str, client_id: str, signature: AnySignature, needs: Iterable[Need], *, now: float
    ) -> None:
        """Raise UNAUTHORIZED if a call of `command` is not signed or its user lacks a right (14)."""
        self._advance(milliseconds(now))
        try:
            self.access.check(signature, needs)
        except Refusal as refusal:
            self._emit_refused(command, client_id, refusal)
            raise

    def settings(self, client_id: str, settings: ClientSettings, *, now: float) -> MergedSettings:
        """Store a client's settings and return the merged ones (2.1, 2.2); `Refusal.surface` is where a refusal
        shows."""
        return self._run("Telemetry", client_id, now, self._clients.settings, client_id, settings)

    def heartbeat(self, client_id: str, group: str, *, now: float) -> None:
        """Keep a client registered (R2.14). Refused: UNRECOGNIZED_CLIENT_TYPE, ILLEGAL_CONSUMER_GROUP."""
        self._run("Heartbeat", client_id, now, self._clients.heartbeat, client_id, group)

    def keep_alive(self, client_id: str, *, now: float) -> None:
        """Mark a client as alive, without any check; unknown ids are ignored."""
        self._advance(milliseconds(now))
        self._clients.keep_alive(client_id)

    def lose_stream(self, client_id: str, *, now: float) -> None:
        """Note that a client's telemetry stream ended: commands go to other clients until its next settings.

        Unknown ids are ignored.
        """
        self._advance(milliseconds(now))
        self._clients.lose_stream(client_id)

    def terminate(self, client_id: str, group: str, *, now: float) -> None:
        """Unregister a client (R2.16). Refused: UNRECOGNIZED_CLIENT_TYPE; ILLEGAL_CONSUMER_GROUP (settings
        are gone then, too)."""
        self._run("NotifyClientTermination", client_id, now, self._terminate, client_id, group)

    def query_route(self, topic: str, *, now: float, client_id: str = "") -> tuple[RouteEntry, ...]:
        """List a topic's queues (R3.1-R3.4). Refused: ILLEGAL_TOPIC, TOPIC_NOT_FOUND."""
        return self._run("QueryRoute", client_id, now, query_route, self._state, topic)

    def query_assignment(
        self, client_id: str, topic: str, group: str, *, now: float
    ) -> tuple[RouteEntry, ...]:
        """Return the assignment of a consumer (R3.6-R3.8).

        Refused: ILLEGAL_TOPIC, ILLEGAL_CONSUMER_GROUP, TOPIC_NOT_FOUND, FORBIDDEN.
        """
        arguments = (self._state, topic, group, client_id)
        return self._run("QueryAssignment", client_id, now, query_assignment, *arguments)

    # Producing

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        """Store one message or a batch (4). Refused with the code of the first failing row of 4.1; nothing is
        stored then."""
        return self._run("SendMessage", client_id, now, self._producing.send, messages, client_id)

    def recall(self, topic: str, handle: str, *, now: float, client_id: str = "") -> str:
        """Recall a delayed message before its delivery time; return its id (4.8)."""
        return self._run("RecallMessage", client_id, now, self._delays.recall, topic, handle, client_id)

    def end_transaction(self, request: EndTransactionRequest, *, now: float) -> None:
        """Commit or roll back a half message (9.2). Refused: ILLEGAL_TOPIC, INVALID_TRANSACTION_ID, the
        profile's `unknown_transaction_code`."""
        self._run("EndTransaction", request.client_id, now, self._transactions.end, request)

    # Consuming

    def receive(self, request: ReceiveRequest, *, now: float) -> Received | Parked:
        """Lease messages to a consumer, or park the call until messages arrive or its polling time ends (5)."""
        return self._run("ReceiveMessage", request.client_id, now, self._receiving.receive, request)

    def cancel_poll(self, poll_id: int, *, now: float) -> None:
        """Note that the caller of a parked receive or pull disconnected; unknown or answered ids are ignored (R5.7)."""
        self._advance(milliseconds(now))
        receive = self._receive_polls.get(poll_id)
        if receive is not None:
            self._receiving.cancel(receive)
        pull = self._pull_polls.get(poll_id)
        if pull is not None:
            self._pulling.cancel(pull)

    def end_poll(self, poll_id: int, *, now: float) -> None:
        """Answer a parked receive or pull now, as if it timed out; unknown or answered ids are ignored."""
        self._advance(milliseconds(now))
        receive = self._receive_polls.get(poll_id)
        if receive is not None:
            self._receiving.expire(receive)
        pull = self._pull_polls.get(poll_id)
        if pull is not None:
            self._pulling.expire(pull)

    def release_deliveries(self, receipt_handles: tuple[str, ...], *, now: float) -> None:
        """Release deliveries that could not be written (R5.7); handles without a lease are ignored."""
        self._advance(milliseconds(now))
        self._leasing.release_deliveries(receipt_handles)

    def ack(self, request: AckRequest, *, now: float) -> AckResult:
        """Acknowledge messages, each entry on its own (6.2). Refused as a whole: names, no entries."""
        return self._run("AckMessage", request.client_id, now, self._settling.ack, request)

    def change_invisible(self, request: ChangeRequest, *, now: float) -> str:
        """Change the end of a lease, counted from now; return the new receipt handle (6.3)."""
        handle = self._run("ChangeInvisibleDuration", request.client_id, now, self._settling.change, request)
        # A change to 0 ends the lease now, not at the next command.
        self._advance(self._state.now)
        return handle

    def forward_to_dead_letter_queue(self, request: ForwardRequest, *, now: float) -> None:
        """Move a message to the group's dead-letter topic and settle it (6.4)."""
        self._run("ForwardMessageToDeadLetterQueue", request.client_id, now, self._settling.forward, request)

    def sync_lite_subscription(self, request: LiteSyncRequest, *, now: float) -> None:
        """Change the lite topics that a client subscribes to (R4.33).

        Refused: names, a topic or group that is not bound (ILLEGAL_TOPIC), LITE_SUBSCRIPTION_QUOTA_EXCEEDED.
        """
        self._run("SyncLiteSubscription", request.client_id, now, self._subscriptions.sync, request)

    # Queues and offsets

    def pull(self, request: PullRequest, *, now: float) -> Pulled | Parked:
        """Read a queue from an offset, without lease or effect on the group (10.1); waits at the end of the
        queue."""
        return self._run("PullMessage", request.client_id, now, self._pulling.pull, request)

    def update_offset(self, group: str, topic: str, queue_id: int, offset: int, *, now: float) -> None:
        """Store a group's offset in one queue (10.1). Refused: ILLEGAL_OFFSET below 0, TOPIC_NOT_FOUND,
        names."""
        self._run("UpdateOffset", "", now, self._offsets.update, group, topic, queue_id, offset)

    def get_offset(self, group: str, topic: str, queue_id: int, *, now: float) -> int:
        """Return a group's stored offset (10.1). Refused: OFFSET_NOT_FOUND, TOPIC_NOT_FOUND, names."""
        return self._run("GetOffset", "", now, self._offsets.get, group, topic, queue_id)

    def query_offset(self, query: OffsetQuery, *, now: float) -> int:
        """Return the first, the next or the first offset stored at or after a time (10.1, R10.7)."""
        return self._run("QueryOffset", "", now, self._offsets.query, query)

    def reset_offset(
        self, group: str, topic: str, policy: OffsetPolicy, *, now: float, timestamp: float | None = None
    ) -> tuple[int, ...]:
        """Reset a group to the beginning, the end or a time in every queue of a topic; return its offsets (R10.6)."""
        return self._run("ResetOffset", "", now, self._offsets.reset, group, topic, policy, timestamp)

    # Commands for clients

    def verify_message(self, client_id: str, message: StoredMessage, *, now: float) -> str:
        """Ask a consumer to consume a message on trial; return the nonce its reply will carry (R2.11)."""
        return self._command(client_id, now, lambda nonce: VerifyMessage(nonce, message))

    def print_stack_trace(self, client_id: str, *, now: float) -> str:
        """Ask a client for its stack traces; return the nonce its reply will carry (R2.11)."""
        return self._command(client_id, now, PrintStackTrace)

    def reconnect_endpoints(self, client_id: str, *, now: float) -> str:
        """Ask a client to reconnect; return the nonce (2.3)."""
        return self._command(client_id, now, ReconnectEndpoints)

    # Inside

    def _run(
        self,
        command: str,
        client_id: str,
        now: float,
        act: Callable[[*Arguments], Answer],
        *arguments: *Arguments,
    ) -> Answer:
        """Run a command at its time; a refusal is recorded as an event, too."""
        self._advance(milliseconds(now))
        try:
            if self.throttle.limits:
                self.throttle.take(command)
            return act(*arguments)
        except Refusal as refusal:
            self._emit_refused(command, client_id, refusal)
            raise

    def _emit_refused(self, command: str, client_id: str, refusal: Refusal) -> None:
        state = self._state
        state.events.append(Refused(state.at, command, client_id, refusal.code, refusal.message))

    def _advance(self, now: int) -> None:
        state = self._state
        if now < state.cleaning_at and not state.timers.has_due(now):
            if now > state.now:  # `max` takes three times as long, for every command
                state.now = now
            return
        while state.cleaning_at <= now:
            self._fire_due(state.cleaning_at)
            self._retention.on_time()
        self._fire_due(now)

    def _fire_due(self, now: int) -> None:
        state = self._state
        while (due := state.timers.pop_due(now)) is not None:
            at, timer, action = due
            state.now = max(state.now, at)
            action(timer)
        state.now = max(state.now, now)

    def _terminate(self, client_id: str, group: str) -> None:
        self._clients.terminate(client_id, group)
        if self.profile.termination_ends_polls:
            self._receiving.dismiss_client(client_id)
            self._pulling.dismiss_client(client_id)

    def _command(self, client_id: str, now: float, make: Callable[[str], Command]) -> str:
        self._advance(milliseconds(now))
        nonce = str(self._state.next_serial())
        self._run("ServerCommand", client_id, now, self._clients.command, client_id, make(nonce))
        return nonce

    def _on_stored(self, topic: Topic, message: StoredMessage) -> None:
        name = topic.config.name
        if name in self._receive_polls.waiting:
            self._receive_polls.stored(name, message)
        if name in self._pull_polls.waiting:
            self._pulling.stored(topic, message)
