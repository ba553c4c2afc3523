"""A producer that answers the server's transaction checks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import grpc.aio
from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.probe.answers import code_of
from aiorocketmq_conformance.probe.client import ProbeClient
from aiorocketmq_conformance.probe.clock import STUCK
from aiorocketmq_conformance.probe.requests import resource
from aiorocketmq_conformance.probe.telemetry import StreamEnded

# Servers expire a client that is silent for two minutes (rule R2.15).
HEARTBEAT_EVERY = 30.0
CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
"""The property in which Apache's servers number the checks of a message."""
COMMIT = pb.TransactionResolution.COMMIT
ROLLBACK = pb.TransactionResolution.ROLLBACK


@dataclass(frozen=True, slots=True)
class Check:
    """One transaction check of the server."""

    message: pb.Message
    transaction_id: str
    at: float
    """When it arrived, seconds of the case's clock."""
    client_id: str

    @property
    def id(self) -> str:
        """The id of the half message."""
        return self.message.system_properties.message_id

    @property
    def number(self) -> int:
        """Its number by the server's count, from 1; 0 if unknown."""
        return int(self.message.user_properties.get(CHECK_TIMES, "0"))


Decide = Callable[[Check], "int | None"]
"""Returns the resolution of a check, or None for no response."""


class Checker:
    """Receives every check on a producer's stream, and responds with the result of `decide`. Used as `async with`."""

    def __init__(self, client: ProbeClient, decide: Decide) -> None:
        """Prepare; the client must have sent its settings."""
        self.client = client
        self._decide = decide
        self.checks: list[Check] = []
        """Every check in the order of arrival."""
        self.errors: list[BaseException] = []
        """Errors of responses; a case asserts that it stays empty."""
        self._changed = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(beat(self.client))]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Stop receiving."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def of(self, message_id: str) -> list[Check]:
        """Return the checks of one half message."""
        return [check for check in self.checks if check.id == message_id]

    async def count(self, enough: int, message_id: str | None = None) -> None:
        """Wait for `count` checks (of one message)."""
        await self._until(lambda: self._number(message_id) >= enough)

    async def last(self, limit: int, message_id: str) -> None:
        """Wait for `limit` checks of a message, or for the one with that number by the server's count."""
        await self._until(
            lambda: (
                self._number(message_id) >= limit
                or any(check.number >= limit for check in self.of(message_id))
            )
        )

    async def _until(self, is_enough: Callable[[], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self.errors or is_enough())
        if self.errors:
            raise self.errors[0]

    def _number(self, message_id: str | None) -> int:
        return len(self.checks) if message_id is None else len(self.of(message_id))

    async def _listen(self) -> None:
        stream = self.client.stream
        assert stream is not None, "the client must send its settings first"
        while True:
            try:
                frame = await stream.next()
            except StreamEnded as end:
                if end.code != "SILENCE":  # no check: expected by many cases
                    return
                continue
            if frame.HasField("recover_orphaned_transaction_command"):
                check = frame.recover_orphaned_transaction_command
                await self._take(
                    Check(check.message, check.transaction_id, self.client.clock.now(), self.client.client_id)
                )

    async def _take(self, check: Check) -> None:
        self.checks.append(check)
        resolution = self._decide(check)
        try:
            if resolution is not None:
                reply = await end_transaction(
                    self.client, check.message.topic.name, check.transaction_id, resolution, from_check=True
                )
                assert reply.status.code == pb.Code.OK, (
                    f"the answer to a check got {code_of(reply)}: {reply.status.message}"
                )
        except AssertionError as error:  # raised in the case by `count`
            self.errors.append(error)
        async with self._changed:
            self._changed.notify_all()


async def beat(client: ProbeClient, group: str | None = None, kind: int | None = None) -> None:
    """Send heartbeats until cancelled, so that the server does not forget a client that only waits."""
    while True:
        await client.clock.sleep(HEARTBEAT_EVERY)
        with suppress(AssertionError, grpc.aio.AioRpcError):
            await client.heartbeat(group, kind)


async def end_transaction(
    client: ProbeClient,
    topic: str,
    transaction_id: str,
    resolution: int,
    *,
    message_id: str = "",
    from_check: bool = False,
    timeout: float = STUCK,
) -> pb.EndTransactionResponse:
    """Commit or roll back; the message id is the transaction id unless another is given."""
    source = pb.TransactionSource.SOURCE_SERVER_CHECK if from_check else pb.TransactionSource.SOURCE_CLIENT
    reply: pb.EndTransactionResponse = await client.unary(
        "EndTransaction",
        pb.EndTransactionRequest(
            topic=resource(topic),
            message_id=message_id or transaction_id,
            transaction_id=transaction_id,
            resolution=resolution,  # type: ignore[arg-type]  # wrong numbers allowed
            source=source,
        ),
        timeout=timeout,
    )
    return reply
