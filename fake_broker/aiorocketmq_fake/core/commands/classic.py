"""The commands of the classic remoting protocol, over the same queues, groups and offsets as all others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar, TypeVarTuple

from aiorocketmq_fake.core.commands.delays import Delays
from aiorocketmq_fake.core.commands.inspection import Inspection
from aiorocketmq_fake.core.commands.members import Members
from aiorocketmq_fake.core.commands.offset_resets import OffsetResets
from aiorocketmq_fake.core.commands.producing import Producing
from aiorocketmq_fake.core.commands.pulling import Pulling
from aiorocketmq_fake.core.commands.queue_locks import QueueLocks
from aiorocketmq_fake.core.commands.registry import ensured_group
from aiorocketmq_fake.core.commands.send_back import SendingBack
from aiorocketmq_fake.core.commands.transactions import Transactions
from aiorocketmq_fake.core.records.topics import Topic
from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.classic_model import (
    Heartbeat,
    Member,
    MembersOfGroup,
    QueueKey,
    SendBack,
    Subscribed,
)
from aiorocketmq_fake.core.values.codes import Code, Refusal, Resolution, TopicType
from aiorocketmq_fake.core.values.events import TopicChanged
from aiorocketmq_fake.core.values.model import (
    EndTransactionRequest,
    OutgoingMessage,
    Parked,
    Pulled,
    PullRequest,
    SendOutcome,
    TopicConfig,
)
from aiorocketmq_fake.core.values.names import is_internal

Arguments = TypeVarTuple("Arguments")
Answer = TypeVar("Answer")


class ClassicBroker(Inspection, ABC):
    """The commands of a broker that only clients of the classic protocol use. A channel is a connection's number.

    Its commands have names of their own, so that rates of RPCs do not count for them.
    """

    _delays: Delays
    _members: Members
    _locks: QueueLocks
    _resets: OffsetResets
    _sending_back: SendingBack
    _pulling: Pulling
    _producing: Producing
    _transactions: Transactions

    @abstractmethod
    def _run(
        self,
        command: str,
        client_id: str,
        now: float,
        act: Callable[[*Arguments], Answer],
        *arguments: *Arguments,
    ) -> Answer: ...

    # Members and locks

    def beat(self, channel: int, beat: Heartbeat, *, now: float) -> None:
        """Register a connection in the groups of its heartbeat; groups and their retry topics are created."""
        self._run("Remoting.HEART_BEAT", beat.client_id, now, self._members.beat, channel, beat)

    def unregister(
        self, channel: int, client_id: str, consumer_group: str, producer_group: str, *, now: float
    ) -> None:
        """Unregister a connection from its groups; empty and unknown names are ignored."""
        leave = self._members.unregister
        self._run(
            "Remoting.UNREGISTER_CLIENT", client_id, now, leave, channel, consumer_group, producer_group
        )

    def close_channel(self, channel: int, *, now: float) -> None:
        """Drop a closed connection; its queue locks stay until they expire."""
        self._run("Remoting.CLOSE_CHANNEL", "", now, self._members.close, channel)

    def lock_queues(
        self, group: str, client_id: str, queues: tuple[QueueKey, ...], *, now: float
    ) -> tuple[QueueKey, ...]:
        """Lock queues for 60 s, or renew the locks; return those that the client holds."""
        return self._run("Remoting.LOCK_BATCH_MQ", client_id, now, self._locks.lock, group, client_id, queues)

    def unlock_queues(self, group: str, client_id: str, queues: tuple[QueueKey, ...], *, now: float) -> None:
        """Release locks that the client holds."""
        self._run("Remoting.UNLOCK_BATCH_MQ", client_id, now, self._locks.unlock, group, client_id, queues)

    def members(self, group: str) -> MembersOfGroup | None:
        """Return the members of a classic group, None without members."""
        return self._members.of_group(group)

    def subscription(self, group: str, topic: str) -> Subscribed | None:
        """Return the subscription of a classic group to a topic, None if no member declared one."""
        return self._members.subscription(group, topic)

    def producers(self, group: str) -> tuple[Member, ...]:
        """Return the members of a classic producer group."""
        return self._members.producers(group)

    # Messages

    def pull_classic(self, request: PullRequest, *, now: float, commit: int | None = None) -> Pulled | Parked:
        """Read a queue like `pull`; the group is created, and `commit` is stored as its offset first."""
        return self._run("Remoting.PULL_MESSAGE", request.client_id, now, self._pull_classic, request, commit)

    def commit_classic(self, group: str, topic: str, queue_id: int, offset: int, *, now: float) -> bool:
        """Store a group's offset like `update_offset`; False if an administrator has reset it meanwhile."""
        commit = self._resets.commit
        return self._run("Remoting.UPDATE_CONSUMER_OFFSET", "", now, commit, group, topic, queue_id, offset)

    def reset_queue(self, group: str, topic: str, queue_id: int, offset: int, *, now: float) -> None:
        """Reset a group's offset in one queue; the next pull is redirected there."""
        reset = self._resets.reset
        self._run("Remoting.INVOKE_BROKER_TO_RESET_OFFSET", "", now, reset, group, topic, queue_id, offset)

    def send_classic(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = "", new_queues: int = 0
    ) -> tuple[SendOutcome, ...]:
        """Store messages in the queue that their producer chose; an unknown topic is created with `new_queues`."""
        return self._run(
            "Remoting.SEND_MESSAGE", client_id, now, self._send_classic, messages, client_id, new_queues
        )

    def send_back(self, request: SendBack, *, now: float, client_id: str = "") -> None:
        """Redeliver a message to its group later. Refused: MESSAGE_NOT_FOUND."""
        self._run(
            "Remoting.CONSUMER_SEND_MSG_BACK",
            client_id,
            now,
            self._sending_back.send_back,
            request,
            client_id,
        )

    def recall_classic(self, topic: str, handle: str, *, now: float, client_id: str = "") -> str:
        """Recall a delayed message like `recall`, whatever the topic's type. Refused, too: FORBIDDEN if recalls are
        switched off, TOPIC_NOT_FOUND."""
        recall = self._delays.recall_classic
        return self._run("Remoting.RECALL_MESSAGE", client_id, now, recall, topic, handle, client_id)

    def end_half(
        self,
        offset: int,
        resolution: Resolution,
        *,
        now: float,
        client_id: str = "",
        from_check: bool = False,
    ) -> None:
        """Commit or roll back the half message that has this offset now. Refused: INVALID_TRANSACTION_ID."""
        self._run(
            "Remoting.END_TRANSACTION",
            client_id,
            now,
            self._end_half,
            offset,
            resolution,
            client_id,
            from_check,
        )

    # Inside

    def _pull_classic(self, request: PullRequest, commit: int | None) -> Pulled | Parked:
        state = self._state
        state.check_group(request.group)
        group = ensured_group(state, request.group)
        if not group.config.consume_enabled:
            raise Refusal(Code.FORBIDDEN, f"The consumer group {request.group} may not consume.")
        moved = self._resets.moved(request)
        if commit is not None and (moved is None or state.profile.pull_commits_over_resets):
            self._resets.commit(request.group, request.topic, request.queue_id, commit)
        return moved or self._pulling.pull(request)

    def _send_classic(
        self, messages: tuple[OutgoingMessage, ...], client_id: str, new_queues: int
    ) -> tuple[SendOutcome, ...]:
        state = self._state
        if len(messages) == 1:
            messages = (self._destination(messages[0]),)
        name = messages[0].topic if messages else ""
        may_create = new_queues > 0 and (state.profile.auto_create_topics or is_internal(name))
        is_new = bool(name) and name not in state.topics and may_create
        queues = 1 if is_internal(name) else new_queues
        config = TopicConfig(name, TopicType.NORMAL, queues, queues)
        if is_new:
            state.check_topic(name)
            state.topics[name] = Topic(config, state.new_entries, system=is_internal(name))
        try:
            outcomes = self._producing.send(tuple(map(self._dated, messages)), client_id)
        except Refusal:
            if is_new and not state.profile.refused_sends_create_topics:
                del state.topics[name]
            raise
        if is_new:
            state.events.append(TopicChanged(state.at, config, deleted=False))
        return outcomes

    def _destination(self, message: OutgoingMessage) -> OutgoingMessage:
        group = message.topic.removeprefix(limits.RETRY_PREFIX)
        return self._sending_back.destination(message, is_locked=self._locks.is_held_by(group))

    def _dated(self, message: OutgoingMessage) -> OutgoingMessage:
        """Start a delay now."""
        delay = message.classic.delay if message.classic is not None else None
        if delay is None:
            return message
        return replace(message, delivery_timestamp=self._state.at + delay)

    def _end_half(self, offset: int, resolution: Resolution, client_id: str, from_check: bool) -> None:
        half = self._half_messages.at(offset)
        if half is None:
            raise Refusal(Code.INVALID_TRANSACTION_ID, "Find prepared transaction message failed")
        topic, transaction_id = half.key
        request = EndTransactionRequest(
            client_id, topic, transaction_id, resolution, transaction_id, from_check
        )
        self._transactions.decide(half, request)
