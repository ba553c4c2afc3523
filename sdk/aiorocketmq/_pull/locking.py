"""Locks of queues, by which members of a group keep the order of each queue; remoting-protocol.md 6.10."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from aiorocketmq._core.remoting.bodies import lock_body, parse_locked
from aiorocketmq._remoting.codes import RequestCode
from aiorocketmq._remoting.session import RemotingSession
from aiorocketmq.errors import RocketMQError
from aiorocketmq.hooks import LockEvent, Phase
from aiorocketmq.message import MessageQueue

logger = logging.getLogger("aiorocketmq.pull_consumer")


class Locking(NamedTuple):
    """What brokers answered to a request for locks."""

    locked: frozenset[MessageQueue]
    unknown: frozenset[MessageQueue]
    """Those of brokers that have refused the request, or not answered it."""
    failure: RocketMQError | None
    """The first error, if there was one."""


class QueueLocks:
    """The locks of one member. Brokers release a lock 60 s after it was last locked or renewed."""

    def __init__(self, session: RemotingSession, group: str) -> None:
        self._session = session
        self._group = group

    async def lock(self, queues: Collection[MessageQueue]) -> Locking:
        """Lock `queues`, or renew their locks; a broker that refuses keeps no other from it."""
        by_broker = _by_broker(queues)
        outcomes = await asyncio.gather(
            *(self._lock(broker, of_broker) for broker, of_broker in by_broker.items())
        )
        locked: set[MessageQueue] = set()
        unknown: set[MessageQueue] = set()
        failure: RocketMQError | None = None
        for of_broker, outcome in zip(by_broker.values(), outcomes, strict=True):
            if isinstance(outcome, RocketMQError):
                failure = failure or outcome
                unknown.update(of_broker)
            else:
                locked |= outcome
        return Locking(frozenset(locked), frozenset(unknown), failure)

    async def unlock(self, queues: Collection[MessageQueue]) -> None:
        """Release the locks of `queues`; if that fails, they expire at the broker."""
        for broker, of_broker in _by_broker(queues).items():
            try:
                with self._observed(of_broker, is_release=True) as done:
                    await self._ask(broker, RequestCode.UNLOCK_BATCH_MQ, of_broker)
                    done.update(of_broker)
            except RocketMQError as error:
                logger.warning("locks at %s were not released: %s", broker, error)

    async def _lock(
        self, broker: str, queues: Collection[MessageQueue]
    ) -> frozenset[MessageQueue] | RocketMQError:
        try:
            with self._observed(queues) as done:
                body = await self._ask(broker, RequestCode.LOCK_BATCH_MQ, queues)
                try:
                    done.update(parse_locked(body) & frozenset(queues))
                except ValueError as error:
                    raise self._session.malformed(f"the locks of broker {broker!r}", error) from error
        except RocketMQError as error:
            return error
        return frozenset(done)

    async def _ask(self, broker: str, code: RequestCode, queues: Collection[MessageQueue]) -> bytes:
        body = lock_body(self._session.client_id, self._group, queues)
        return (await self._session.call_broker(broker, code, {"bname": broker}, body)).body

    @contextmanager
    def _observed(
        self, queues: Iterable[MessageQueue], *, is_release: bool = False
    ) -> Iterator[set[MessageQueue]]:
        """Emit the request for each queue and its outcome: success for those that the block adds to the set."""
        done: set[MessageQueue] = set()
        emitter = self._session.emitter
        if not emitter.is_watched:
            yield done
            return
        calls = [
            LockEvent(
                client=emitter.client,
                phase=Phase.INVOKE,
                operation=self._session.next_operation(),
                queue=queue,
                is_release=is_release,
            )
            for queue in queues
        ]
        for call in calls:
            emitter.event(call)
        # A request without an answer may have taken effect.
        outcome, failure = Phase.INFO, None
        try:
            yield done
            outcome = Phase.FAIL
        except RocketMQError as error:
            failure = error
            if not error.may_have_taken_effect:
                outcome = Phase.FAIL
            raise
        finally:
            for call in calls:
                phase = Phase.OK if call.queue in done else outcome
                emitter.event(replace(call, phase=phase, error=failure))


def _by_broker(queues: Collection[MessageQueue]) -> dict[str, list[MessageQueue]]:
    by_broker: defaultdict[str, list[MessageQueue]] = defaultdict(list)
    for queue in queues:
        by_broker[queue.broker].append(queue)
    return by_broker
