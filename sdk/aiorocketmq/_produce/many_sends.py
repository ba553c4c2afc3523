"""Sends many messages side by side, a bounded number of requests at a time, and collects what became of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import anyio

from aiorocketmq._core.batches import cut
from aiorocketmq._produce.batch_sending import Parcel
from aiorocketmq._produce.gathering import may_travel_together, travel_size
from aiorocketmq._produce.sender import Sender
from aiorocketmq.errors import RocketMQError
from aiorocketmq.hooks import SendCall
from aiorocketmq.message import Message, MessageType, SendReceipt


@dataclass(frozen=True, slots=True)
class _Unit:
    """Messages, by their numbers, that travel in one request, or one after the other."""

    numbers: Sequence[int]
    is_batch: bool = False


class ManySends:
    """One call of `send_many`. `max_batch` is None where nothing may travel together."""

    def __init__(
        self, messages: Sequence[Message], send: SendCall, sender: Sender, max_batch: int | None
    ) -> None:
        self._messages = messages
        self._send = send
        self._sender = sender
        self._max_batch = max_batch
        self._outcomes: list[SendReceipt | RocketMQError | None] = [None] * len(messages)

    async def run(self, at_once: int) -> tuple[SendReceipt | RocketMQError, ...]:
        """Send them all and return their outcomes in the order given."""
        units = iter(self._units())
        async with anyio.create_task_group() as group:
            for _ in range(min(at_once, len(self._messages))):
                group.start_soon(self._work, units)
        return tuple(outcome for outcome in self._outcomes if outcome is not None)

    def _units(self) -> list[_Unit]:
        """Messages of one message group stay in their order; plain ones are cut into batches where that is asked."""
        lanes: dict[tuple[str, str] | int, list[int]] = {}
        together: list[tuple[str, int, int]] = []
        for number, message in enumerate(self._messages):
            if self._max_batch is not None and may_travel_together(message):
                together.append((message.topic, number, travel_size(message)))
            elif message.message_group is not None:
                lanes.setdefault((message.topic, message.message_group), []).append(number)
            else:
                lanes[number] = [number]
        batches = cut(together, max_count=self._max_batch or 1)
        return [_Unit(numbers) for numbers in lanes.values()] + [_Unit(batch, True) for batch in batches]

    async def _work(self, units: Iterator[_Unit]) -> None:
        for unit in units:
            if unit.is_batch:
                await self._send_batch(unit.numbers)
            else:
                await self._send_in_turn(unit.numbers)

    async def _send_in_turn(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            try:
                self._outcomes[number] = await self._send(self._messages[number])
            except RocketMQError as error:
                self._outcomes[number] = error

    async def _send_batch(self, numbers: Sequence[int]) -> None:
        ready: dict[int, Parcel] = {}
        for number in numbers:
            message = self._messages[number]
            try:
                await self._sender.ready(message, MessageType.NORMAL)
                ready[number] = Parcel(message, self._sender.next_message_id())
            except RocketMQError as error:
                self._outcomes[number] = error
        if ready:
            outcomes = await self._sender.send_batch(list(ready.values()))
            for number, outcome in zip(ready, outcomes, strict=True):
                self._outcomes[number] = outcome
