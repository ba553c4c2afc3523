"""Sends many messages side by side, a bounded number of requests at a time, and collects what became of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import anyio

from aiorocketmq._core.batches import cut
from aiorocketmq._produce.batch_sending import Parcel
from aiorocketmq._produce.gathering import may_travel_together
from aiorocketmq._produce.sender import Sender
from aiorocketmq.errors import RocketMQError
from aiorocketmq.hooks import SendCall
from aiorocketmq.message import Message, SendReceipt


@dataclass(frozen=True, slots=True)
class _Lane:
    """Messages, by their numbers, that travel one after the other."""

    numbers: Sequence[int]


@dataclass(frozen=True, slots=True)
class _Batch:
    """Messages, by their numbers, that travel in one request."""

    parcels: Sequence[tuple[int, Parcel]]


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
        units: Iterator[_Lane | _Batch] = iter([*self._lanes(), *await self._batches()])
        async with anyio.create_task_group() as group:
            for _ in range(min(at_once, len(self._messages))):
                group.start_soon(self._work, units)
        return tuple(outcome for outcome in self._outcomes if outcome is not None)

    def _goes_in_batch(self, message: Message) -> bool:
        return self._max_batch is not None and may_travel_together(message)

    def _lanes(self) -> list[_Lane]:
        """What does not travel in batches; messages of one message group stay in their order."""
        lanes: dict[tuple[str, str] | int, list[int]] = {}
        for number, message in enumerate(self._messages):
            if not self._goes_in_batch(message):
                group = message.message_group
                lanes.setdefault(number if group is None else (message.topic, group), []).append(number)
        return [_Lane(numbers) for numbers in lanes.values()]

    async def _batches(self) -> list[_Batch]:
        items: list[tuple[tuple[str, bool], tuple[int, Parcel], int]] = []
        for number, message in enumerate(self._messages):
            if self._goes_in_batch(message):
                try:
                    parcel = await self._sender.parcel(message)
                except RocketMQError as error:
                    self._outcomes[number] = error
                else:
                    items.append((parcel.lane, (number, parcel), parcel.size))
        return [_Batch(parcels) for parcels in cut(items, max_count=self._max_batch or 1)]

    async def _work(self, units: Iterator[_Lane | _Batch]) -> None:
        for unit in units:
            if isinstance(unit, _Batch):
                outcomes = await self._sender.send_batch([parcel for _, parcel in unit.parcels])
                for (number, _), outcome in zip(unit.parcels, outcomes, strict=True):
                    self._outcomes[number] = outcome
            else:
                await self._send_in_turn(unit.numbers)

    async def _send_in_turn(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            try:
                self._outcomes[number] = await self._send(self._messages[number])
            except RocketMQError as error:
                self._outcomes[number] = error
