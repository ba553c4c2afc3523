"""The broker: every command of the protocol as a method, decided by the modules behind it.

Time is an argument: `now` is Unix seconds, never less than the last one given; its grain is a millisecond.
Every command first lets all that is due up to `now` happen, in order of time. A command either takes effect
as a whole or raises `Refusal` and leaves the state as it was. What must be told to others than the caller is
taken by `take_outputs()`, what happened by `take_events()`.
"""

import random

from aiorocketmq_fake.core.codes import OffsetPolicy
from aiorocketmq_fake.core.events import Event
from aiorocketmq_fake.core.model import (
    AckRequest,
    AckResult,
    ChangeRequest,
    ClientSettings,
    ClientSnapshot,
    DeliverySnapshot,
    EndTransactionRequest,
    ForwardRequest,
    GroupConfig,
    GroupSnapshot,
    LeaseSnapshot,
    MergedSettings,
    OffsetQuery,
    OffsetSnapshot,
    OrderSnapshot,
    OutgoingMessage,
    Output,
    Parked,
    Pulled,
    PullRequest,
    Received,
    ReceiveRequest,
    RouteEntry,
    SendOutcome,
    StoredMessage,
    TopicConfig,
    TopicSnapshot,
    Totals,
)
from aiorocketmq_fake.core.profile import Profile


class Broker:
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
    ) -> None:
        self.profile = profile
        self.now = now
        self.rng = rng
        self.host = host
        self.port = port
        self.name = name
        self.cluster = cluster

    # Time and outputs

    def advance(self, now: float) -> None:
        """Let everything due up to `now` happen, in order of time. Effects carry their own time, not
        `now`."""
        raise NotImplementedError

    def next_deadline(self) -> float | None:
        """Tell when `advance` has something to do next, None when nothing is pending. Never in the past after
        `advance`."""
        raise NotImplementedError

    def take_outputs(self) -> tuple[Output, ...]:
        """Hand over answers of parked polls and commands for clients since the last call, oldest first."""
        raise NotImplementedError

    def take_events(self) -> tuple[Event, ...]:
        """Hand over what happened since the last call, oldest first."""
        raise NotImplementedError

    # Administration

    def create_topic(self, config: TopicConfig, *, now: float) -> None:
        """Create a topic. Refused: illegal name (ILLEGAL_TOPIC), exists already or queue counts off limits
        (BAD_REQUEST)."""
        raise NotImplementedError

    def update_topic(self, config: TopicConfig, *, now: float) -> None:
        """Replace a topic's settings; messages in queues that go stay until they come back. Refused:
        TOPIC_NOT_FOUND."""
        raise NotImplementedError

    def delete_topic(self, name: str, *, now: float) -> None:
        """Delete a topic with its messages, leases and offsets; its parked polls are answered empty. Refused:
        TOPIC_NOT_FOUND."""
        raise NotImplementedError

    def create_group(self, config: GroupConfig, *, now: float) -> None:
        """Create a consumer group. Refused: illegal name (ILLEGAL_CONSUMER_GROUP), exists already
        (BAD_REQUEST)."""
        raise NotImplementedError

    def update_group(self, config: GroupConfig, *, now: float) -> None:
        """Replace a group's settings; they hold from the next call on. Refused: CONSUMER_GROUP_NOT_FOUND."""
        raise NotImplementedError

    def delete_group(self, name: str, *, now: float) -> None:
        """Delete a group with its offsets, leases and retries; dead letters stay. Refused:
        CONSUMER_GROUP_NOT_FOUND."""
        raise NotImplementedError

    def restart(self, *, now: float) -> None:
        """Forget what lives in the proxy: clients, settings, renewals, transaction memory, parked polls
        (R12.7).

        Topics, messages, offsets, leases, order records and delayed messages live on. No outputs: the callers
        are gone.
        """
        raise NotImplementedError

    # Sessions and routes

    def settings(self, client_id: str, settings: ClientSettings, *, now: float) -> MergedSettings:
        """Store a client's settings and answer the server's (2.1, 2.2); `Refusal.surface` tells where a
        refusal shows."""
        raise NotImplementedError

    def heartbeat(self, client_id: str, group: str, *, now: float) -> None:
        """Keep a client registered (R2.14). Refused: UNRECOGNIZED_CLIENT_TYPE, ILLEGAL_CONSUMER_GROUP."""
        raise NotImplementedError

    def keep_alive(self, client_id: str, *, now: float) -> None:
        """Count a client as heard of, without any check; unknown ids are ignored."""
        raise NotImplementedError

    def terminate(self, client_id: str, group: str, *, now: float) -> None:
        """Unregister a client (R2.16). Refused: UNRECOGNIZED_CLIENT_TYPE; ILLEGAL_CONSUMER_GROUP (settings
        are gone then, too)."""
        raise NotImplementedError

    def query_route(self, topic: str, *, now: float) -> tuple[RouteEntry, ...]:
        """List a topic's queues (R3.1-R3.4). Refused: ILLEGAL_TOPIC, TOPIC_NOT_FOUND."""
        raise NotImplementedError

    def query_assignment(
        self, client_id: str, topic: str, group: str, *, now: float
    ) -> tuple[RouteEntry, ...]:
        """List what a consumer shall receive from (R3.6-R3.8). Refused: ILLEGAL_TOPIC,
        ILLEGAL_CONSUMER_GROUP, TOPIC_NOT_FOUND, FORBIDDEN."""
        raise NotImplementedError

    # Producing

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        """Store one message or a batch (4). Refused with the code of the first failing row of 4.1; nothing is
        stored then."""
        raise NotImplementedError

    def recall(self, topic: str, handle: str, *, now: float, client_id: str = "") -> str:
        """Take a delayed message back before its time; answers its id (4.8)."""
        raise NotImplementedError

    def end_transaction(self, request: EndTransactionRequest, *, now: float) -> None:
        """Commit or roll back a half message (9.2). Refused: ILLEGAL_TOPIC, INVALID_TRANSACTION_ID, the
        profile's `unknown_transaction_code`."""
        raise NotImplementedError

    # Consuming

    def receive(self, request: ReceiveRequest, *, now: float) -> Received | Parked:
        """Lease messages to a consumer, or park the call until some come or its polling time ends (5)."""
        raise NotImplementedError

    def cancel_poll(self, poll_id: int, *, now: float) -> None:
        """Tell that the caller of a parked receive or pull went away; unknown or answered ids are ignored
        (R5.7)."""
        raise NotImplementedError

    def give_back(self, receipt_handles: tuple[str, ...], *, now: float) -> None:
        """Take back deliveries that could not be written to their receiver (R5.7); handles not held are
        ignored."""
        raise NotImplementedError

    def ack(self, request: AckRequest, *, now: float) -> AckResult:
        """Acknowledge messages, each entry on its own (6.2). Refused as a whole: names, no entries."""
        raise NotImplementedError

    def change_invisible(self, request: ChangeRequest, *, now: float) -> str:
        """Give a leased message a new end, counted from now; answers the new receipt handle (6.3)."""
        raise NotImplementedError

    def forward_to_dead_letter_queue(self, request: ForwardRequest, *, now: float) -> None:
        """Move a message to the group's dead-letter topic and settle it (6.4)."""
        raise NotImplementedError

    # Queues and offsets

    def pull(self, request: PullRequest, *, now: float) -> Pulled | Parked:
        """Read a queue from an offset, without lease or effect on the group (10.1); waits at the end of the
        queue."""
        raise NotImplementedError

    def update_offset(self, group: str, topic: str, queue_id: int, offset: int, *, now: float) -> None:
        """Store a group's offset in one queue (10.1). Refused: ILLEGAL_OFFSET below 0, TOPIC_NOT_FOUND,
        names."""
        raise NotImplementedError

    def get_offset(self, group: str, topic: str, queue_id: int, *, now: float) -> int:
        """Answer a group's stored offset (10.1). Refused: OFFSET_NOT_FOUND, TOPIC_NOT_FOUND, names."""
        raise NotImplementedError

    def query_offset(self, query: OffsetQuery, *, now: float) -> int:
        """Answer the first, the next or the first offset stored at or after a time (10.1, R10.7)."""
        raise NotImplementedError

    def reset_offset(
        self, group: str, topic: str, policy: OffsetPolicy, *, now: float, timestamp: float | None = None
    ) -> tuple[int, ...]:
        """Move a group to the beginning, the end or a time in every queue of a topic; answers the new offsets
        (R10.6)."""
        raise NotImplementedError

    # Commands for clients

    def verify_message(self, client_id: str, message: StoredMessage, *, now: float) -> str:
        """Ask a consumer to consume a message on trial; answers the nonce its reply will carry (R2.11)."""
        raise NotImplementedError

    def print_stack_trace(self, client_id: str, *, now: float) -> str:
        """Ask a client for its stack traces; answers the nonce its reply will carry (R2.11)."""
        raise NotImplementedError

    def reconnect_endpoints(self, client_id: str, *, now: float) -> str:
        """Ask a client to connect anew; answers the nonce (2.3)."""
        raise NotImplementedError

    # Inspection: snapshots, never live objects

    def topics(self) -> tuple[TopicSnapshot, ...]:
        """All topics, retry and dead-letter topics included, by name."""
        raise NotImplementedError

    def groups(self) -> tuple[GroupSnapshot, ...]:
        """All consumer groups, by name."""
        raise NotImplementedError

    def clients(self) -> tuple[ClientSnapshot, ...]:
        """All clients whose settings are stored, by id."""
        raise NotImplementedError

    def messages(self, topic: str) -> tuple[StoredMessage, ...]:
        """All stored copies of a topic, by queue and offset; empty for unknown topics."""
        raise NotImplementedError

    def dead_letters(self, group: str) -> tuple[StoredMessage, ...]:
        """What lies in `%DLQ%{group}`, oldest first."""
        raise NotImplementedError

    def deliveries(self, topic: str | None = None, group: str | None = None) -> tuple[DeliverySnapshot, ...]:
        """What was delivered so far, oldest first (at most the last `history` deliveries)."""
        raise NotImplementedError

    def leases(self, group: str | None = None) -> tuple[LeaseSnapshot, ...]:
        """Messages in the hands of consumers."""
        raise NotImplementedError

    def order_records(self, group: str | None = None) -> tuple[OrderSnapshot, ...]:
        """What ordered groups wait for."""
        raise NotImplementedError

    def offsets(self, group: str | None = None) -> tuple[OffsetSnapshot, ...]:
        """Progress of groups, by group, topic and queue."""
        raise NotImplementedError

    def totals(self) -> Totals:
        """Count what the broker holds."""
        raise NotImplementedError
