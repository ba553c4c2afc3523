"""Sends many messages side by side, a bounded number of requests at a time, and collects what became of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import anyio

from aiorocketmq._core.batches import cut
from aiorocketmq._produce.batcher import can_be_batched
from aiorocketmq._produce.requests import BatchMember
from aiorocketmq._produce.sender import Sender
from aiorocketmq.errors import RocketMQError
from aiorocketmq.hooks import SendCall
from aiorocketmq.message import Message, SendReceipt


@dataclass(frozen=True, slots=True)
class _Sequence:
    """Messages, by their numbers, that travel one after the other."""

    numbers: Sequence[int]


@dataclass(frozen=True, slots=True)
class _Batch:
    """Messages that travel in one request, with their numbers."""

    members: Sequence[tuple[int, BatchMember]]

    @property
    def numbers(self) -> Sequence[int]:
        """Their numbers."""
        return [number for number, _ in self.members]


class ManySends:
    """One call of `send_many`. `max_batch` is None if nothing may be batched."""

    def __init__(
        self, messages: Sequence[Message], send: SendCall, sender: Sender, max_batch: int | None
    ) -> None:
        self._messages = messages
        self._send = send
        self._sender = sender
        self._max_batch = max_batch
        self._outcomes: list[SendReceipt | RocketMQError | None] = [None] * len(messages)
        self._progress = 0.0
        """When a message was last stored, or sending began."""
        self._last: RocketMQError | None = None
        """The error of the last attempt since then; messages that are given up do not count."""

    async def run(self, at_once: int) -> tuple[SendReceipt | RocketMQError, ...]:
        """Send them all and return their outcomes in the order given."""
        errors = await self._errors_of_topics()
        units: list[_Sequence | _Batch] = [*self._sequences(), *await self._batches(errors)]
        self._progress = self._sender.loop.time()
        remaining = iter(units)
        if len(units) == 1:
            await self._work(remaining)
        else:
            async with anyio.create_task_group() as group:
                for _ in range(min(at_once, len(units))):
                    group.start_soon(self._work, remaining)
        return tuple(outcome for outcome in self._outcomes if outcome is not None)

    def _goes_in_batch(self, message: Message) -> bool:
        return self._max_batch is not None and can_be_batched(message)

    def _sequences(self) -> list[_Sequence]:
        """What does not travel in batches; messages of one message group stay in their order."""
        sequences: dict[tuple[str, str] | int, list[int]] = {}
        for number, message in enumerate(self._messages):
            if not self._goes_in_batch(message):
                group = message.message_group
                sequences.setdefault(number if group is None else (message.topic, group), []).append(number)
        return [_Sequence(numbers) for numbers in sequences.values()]

    async def _errors_of_topics(self) -> dict[str, RocketMQError]:
        """Look up the routes that batches need, side by side within one budget; the errors, by topic."""
        errors: dict[str, RocketMQError] = {}
        until = self._sender.until()

        async def look_up(topic: str) -> None:
            try:
                await self._sender.route(topic, until)
            except RocketMQError as error:
                errors[topic] = error

        topics = {message.topic for message in self._messages if self._goes_in_batch(message)}
        missing = [topic for topic in topics if not self._sender.has_route(topic)]
        if missing:
            async with anyio.create_task_group() as group:
                for topic in missing:
                    group.start_soon(look_up, topic)
        return errors

    async def _batches(self, errors: Mapping[str, RocketMQError]) -> list[_Batch]:
        items: list[tuple[tuple[str, bool], tuple[int, BatchMember], int]] = []
        until = self._sender.until()
        for number, message in enumerate(self._messages):
            if not self._goes_in_batch(message):
                continue
            if message.topic in errors:
                self._outcomes[number] = errors[message.topic]
                continue
            try:
                member = self._sender.member_at_once(message) or await self._sender.member(message, until)
            except RocketMQError as error:
                self._outcomes[number] = error
            else:
                items.append((member.batch_key, (number, member), member.size))
        return [_Batch(members) for members in cut(items, max_count=self._max_batch or 1)]

    async def _work(self, units: Iterator[_Sequence | _Batch]) -> None:
        for unit in units:
            if isinstance(unit, _Batch):
                await self._send_batch(unit)
            else:
                for number in unit.numbers:
                    await self._send_one(number)

    async def _send_batch(self, batch: _Batch) -> None:
        given_up = self._failure_without_attempt(batch.members[0][1].message)
        if given_up is not None:
            for number in batch.numbers:
                self._outcomes[number] = given_up
            return
        sending = self._sender.batch([member for _, member in batch.members])
        self._record(batch.numbers, await self._sender.send_batch(sending, self._sender.until()))

    async def _send_one(self, number: int) -> None:
        outcome: SendReceipt | RocketMQError | None = self._failure_without_attempt(self._messages[number])
        if outcome is not None:
            self._outcomes[number] = outcome
            return
        try:
            outcome = await self._send(self._messages[number])
        except RocketMQError as error:
            outcome = error
        self._record((number,), (outcome,))

    def _record(self, numbers: Sequence[int], outcomes: Sequence[SendReceipt | RocketMQError]) -> None:
        was_stored = False
        for number, outcome in zip(numbers, outcomes, strict=True):
            self._outcomes[number] = outcome
            if not isinstance(outcome, RocketMQError):
                self._last, was_stored = None, True
            elif outcome.may_retry:
                self._last = outcome
        if was_stored or self._last is None:
            self._progress = self._sender.loop.time()

    def _failure_without_attempt(self, message: Message) -> RocketMQError | None:
        """The error of a message that has not begun, if nothing was stored for as long as one send may take."""
        last, sender = self._last, self._sender
        if last is None or sender.loop.time() - self._progress < sender.retry.budget:
            return None
        return sender.kept_waiting(message.topic, f"none of this send_many was stored meanwhile: {last.text}")
