"""Transaction checks: producers are asked for the outcome of open transactions (9.3).

A half message is immune for a while; then a producer of its topic is asked periodically, until the transaction ends
or is given up. If the profile scans, all checks of the broker fall on one grid of times.
"""

from __future__ import annotations

from dataclasses import replace

from aiorocketmq_fake.core.commands.members import Members
from aiorocketmq_fake.core.records.clients import Client
from aiorocketmq_fake.core.records.half_messages import HalfMessage, HalfMessages
from aiorocketmq_fake.core.state import State, milliseconds
from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.classic_model import Classic
from aiorocketmq_fake.core.values.codes import MessageType, TopicType
from aiorocketmq_fake.core.values.events import TransactionChecked, TransactionGivenUp
from aiorocketmq_fake.core.values.model import (
    CheckHalf,
    CommandForClient,
    ForChannels,
    RecoverOrphanedTransaction,
    StoredMessage,
)


class Checks:
    """Schedules checks and chooses the producer to ask."""

    def __init__(self, state: State, half_messages: HalfMessages, members: Members) -> None:
        self._state = state
        self._members = members
        self._half_messages = half_messages
        self._began = state.now
        self._turn = 0

    def watch(self, half: HalfMessage) -> None:
        """Schedule the first check of a half message."""
        state = self._state
        half.immune_until = self._immunity_end(half)
        if half.topic.config.type is TopicType.MIXED and not state.profile.mixed_topics_checked:
            return
        self._set(half, half.immune_until)

    def leave(self, half: HalfMessage) -> None:
        """Cancel further checks."""
        self._state.timers.cancel(half)

    def _immunity_end(self, half: HalfMessage) -> int:
        """Return the end of a half message's immunity (9.3)."""
        profile = self._state.profile
        own = half.content.recovery_duration
        if own is not None and profile.recovery_in_whole_seconds:
            own = float(int(own))
        # A real server reads -1 as "none of its own".
        immunity = profile.check_immunity if own is None or own == -1 else own
        begin = self._age_begin(half)
        if begin > self._state.now and own is None:
            # A message with a born time in the future has no immunity (session §6).
            return self._state.now
        return begin + milliseconds(immunity)

    def _age_begin(self, half: HalfMessage) -> int:
        if self._state.profile.half_age_from_born:
            return milliseconds(half.content.born_timestamp or 0.0)
        return half.sent_at

    def _set(self, half: HalfMessage, earliest: int) -> None:
        """Schedule the next check at a time, or at the first scan after it."""
        state = self._state
        profile = state.profile
        at = max(earliest, state.now)
        if profile.checks_scan:
            step = milliseconds(profile.check_interval)
            at = self._began + ((at - self._began) // step + 1) * step
        else:
            at = min(at, max(self._end(half), state.now))
        state.timers.set(half, at, self._on_due)

    def _end(self, half: HalfMessage) -> int:
        return self._age_begin(half) + milliseconds(self._state.profile.half_lifetime)

    def _on_due(self, half: HalfMessage) -> None:
        state = self._state
        limit = state.profile.check_limit
        if state.now >= self._end(half) or (limit is not None and half.checks >= limit):
            self._half_messages.remove(half, state.now)
            state.events.append(
                TransactionGivenUp(state.at, half.content, half.content.message_id, half.checks)
            )
            return
        self._check(half)
        pause = 0.0 if state.profile.checks_scan else state.profile.check_interval
        self._set(half, state.now + milliseconds(pause))

    def _check(self, half: HalfMessage) -> None:
        """Ask one producer; without a producer the check is lost, but counts (R9.8)."""
        state = self._state
        half.checks += 1
        half.stored_at = state.now
        half.offset = self._half_messages.next_offset()
        if state.profile.internal_properties_leak:
            properties = {**half.content.properties, limits.CHECK_TIMES_PROPERTY: str(half.checks)}
            half.content = replace(half.content, properties=properties)
        if half.content.classic is not None:
            self._check_classic(half, half.content.classic)
            return
        client = self._choose(half.topic.name)
        client_id = "" if client is None else client.id
        message_id = half.content.message_id
        state.events.append(TransactionChecked(state.at, half.content, message_id, client_id, half.checks))
        if client is None:
            return
        until = state.now + milliseconds(state.profile.transaction_memory)
        self._half_messages.await_decision(half, until, state.now)
        order = RecoverOrphanedTransaction(self._shown(half), message_id)
        state.outputs.append(CommandForClient(client_id, order))

    def _check_classic(self, half: HalfMessage, classic: Classic) -> None:
        """Ask a connection of the producer group; a decision names the place that this check gave the message."""
        state = self._state
        producer = self._members.a_producer(classic.properties.get("PGROUP", ""))
        client_id = "" if producer is None else producer.client_id
        message_id = half.content.message_id
        state.events.append(TransactionChecked(state.at, half.content, message_id, client_id, half.checks))
        if producer is not None:
            state.outputs.append(ForChannels((producer.channel,), CheckHalf(self._shown(half), half.checks)))

    def _choose(self, topic: str) -> Client | None:
        """Choose in turn among the producers of the topic; only a few are tried for one with a stream."""
        state = self._state
        producers = [one for one in state.clients.values() if topic in (one.settings.topics or ())]
        if not producers:
            return None
        self._turn += 1
        for step in range(state.profile.check_tries):
            client = producers[(self._turn + step) % len(producers)]
            if client.reachable:
                return client
        return None

    def _shown(self, half: HalfMessage) -> StoredMessage:
        """Show a half message as its producer is asked about it (R9.10)."""
        return StoredMessage(
            half.content,
            MessageType.TRANSACTION,
            half.topic.name,
            half.queue_id,
            half.offset,
            self._state.log_end,
            half.stored_at / 1000,
            transaction_id=half.content.message_id,
        )
