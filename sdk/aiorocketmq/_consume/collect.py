"""Collects the messages of one answer: at most as many as requested, with their bodies decompressed.

A large compressed body is kept while the answer arrives, and decompressed by an executor before the messages are
returned, so that no body blocks the event loop."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from functools import partial

from aiorocketmq._aio.decompression import unpacked_body
from aiorocketmq._aio.limit import Limit
from aiorocketmq._aio.shielding import uninterrupted
from aiorocketmq._core.bodies import answer_limit
from aiorocketmq._core.endpoint import Endpoint
from aiorocketmq._session.calls import Call, Request, Response
from aiorocketmq._session.conversion import message_from_wire
from aiorocketmq._session.session import Session
from aiorocketmq.errors import RocketMQError, UsageError
from aiorocketmq.message import ReceivedMessage, Settler
from aiorocketmq.wire import messages as pb

logger = logging.getLogger("aiorocketmq.consumer")


class EnoughError(RocketMQError):
    """Raised while an answer with more messages than requested arrives, to end its stream; never leaves this module.

    A RocketMQError, as `Calling` takes any other exception for an answer that cannot be processed."""


class Collecting:
    """The messages of one answer of `endpoint`, added to `messages` as they arrive.

    If an answer has more than `max_messages`, or bodies beyond `answer_limit`, the rest is not read; it is redelivered
    when its leases expire. Cancelled, this continues to decompress for `grace` seconds at most; messages that are still
    compressed then, and those behind them, are removed from `messages` and redelivered as well."""

    __slots__ = (
        "_aside",
        "_broker",
        "_endpoint",
        "_grace",
        "_group",
        "_keep_wire",
        "_max_messages",
        "_max_unpacked",
        "_most",
        "_namespace",
        "_session",
        "_size",
        "is_cut",
        "messages",
    )

    def __init__(
        self,
        session: Session,
        endpoint: Endpoint,
        broker: str,
        *,
        max_messages: int,
        messages: list[ReceivedMessage] | None = None,
        grace: float = 0.0,
    ) -> None:
        self._session = session
        self._endpoint = endpoint
        self._broker = broker
        self._group = session.group
        self._namespace = session.namespace
        self._keep_wire = session.emitter.keeps_wire
        self._max_unpacked = session.network.max_decompressed_body
        self.messages = [] if messages is None else messages
        self.is_cut = False
        """Whether the answer has more messages than were kept."""
        self._max_messages = max_messages
        self._most = answer_limit(max_messages)
        self._size = 0
        self._grace = grace
        self._aside: list[ReceivedMessage] = []
        """Messages whose bodies are still compressed, in the order of their arrival."""

    def add(
        self,
        message: pb.Message,
        settler: Settler | None = None,
        lease_ends_at: float = 0.0,
        lease_ends_us: int | None = None,
    ) -> None:
        """Add a message that has arrived; raises EnoughError if it is one too many."""
        messages = self.messages
        if len(messages) >= self._max_messages or self._size >= self._most:
            self.is_cut = True
            raise EnoughError("the answer has more messages than requested")
        received = message_from_wire(
            message,
            self._endpoint,
            self._broker,
            self._group,
            self._aside,
            self._namespace,
            settler,
            lease_ends_at,
            lease_ends_us,
            self._keep_wire,
            self._max_unpacked,
        )
        self._size += len(received.body)
        messages.append(received)

    async def stream(
        self,
        call: Call[Request, Response],
        request: Request,
        *,
        timeout: float,
        topic: str,
        take: Callable[[Response], None],
    ) -> None:
        """Make the call, whose answers `take` passes to `add`; raises what `Session.stream` does."""
        grace = math.inf
        try:
            await self._session.stream(
                self._endpoint,
                call,
                request,
                timeout=timeout,
                topic=topic,
                group=self._group,
                take=take,
            )
        except EnoughError:
            self._warn(call.name, topic)
        except asyncio.CancelledError:
            grace = self._grace
            raise
        finally:
            if self._aside:
                await self.unpack(grace)

    @property
    def is_incomplete(self) -> bool:
        """Whether bodies are still compressed."""
        return bool(self._aside)

    async def unpack(self, seconds: float = math.inf) -> None:
        """Decompress the remaining bodies within `seconds`."""
        limit = Limit(seconds)
        await uninterrupted(self._unpack_aside(limit), hurry=partial(limit.shorten, self._grace))

    async def _unpack_aside(self, limit: Limit) -> None:
        loop, executor = asyncio.get_running_loop(), self._session.network.executor
        aside = self._aside
        try:
            async with limit:
                while aside:
                    message = aside[0]
                    size = len(message.body)
                    message.body, message.corruption = await loop.run_in_executor(
                        executor, unpacked_body, message.body, self._max_unpacked
                    )
                    del aside[0]
                    self._size += len(message.body) - size
                    if self._size >= self._most and aside:
                        self.is_cut = True
                        break
        # An executor that is shut down or broken; the limit keeps its own cancellation to itself.
        except (RuntimeError, asyncio.CancelledError) as error:
            raise UsageError(
                f"the connection's executor cannot decompress a message: {error!r}", group=self._group
            ) from error
        finally:
            if aside:  # what is behind it is removed as well, or an ordered group would get it first
                del self.messages[self.messages.index(aside[0]) :]
                aside.clear()

    def _warn(self, name: str, topic: str) -> None:
        warned = self._session.overfull
        level = logging.DEBUG if self._endpoint in warned else logging.WARNING
        warned.add(self._endpoint)
        logger.log(
            level,
            "%s answers %s of topic %r with more than the %d messages or %d bytes that were requested; the rest is not "
            "read, and redelivered when its leases end",
            self._endpoint,
            name,
            topic,
            self._max_messages,
            self._most,
            extra=self._session.log_fields(),
        )


async def lone_message(session: Session, message: pb.Message, endpoint: Endpoint) -> ReceivedMessage:
    """The message of a server's command, with its body decompressed."""
    collecting = Collecting(session, endpoint, "", max_messages=1)
    collecting.add(message)
    if collecting.is_incomplete:
        await collecting.unpack()
    return collecting.messages[0]
