"""Reads at replicas while a broker's master is unavailable; the behaviour of replicas was measured, see "Replicas read"
in docs/explanation/decisions/008-replicas-while-a-master-is-away.md."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from aiorocketmq._aio.tasks import Watch
from aiorocketmq._core.endpoint import Address
from aiorocketmq._core.pauses import failure_pause
from aiorocketmq._core.remoting.frame import Frame
from aiorocketmq._remoting.codes import ResponseCode
from aiorocketmq._remoting.routes import MASTER, BrokerAddresses
from aiorocketmq._session.client import Client
from aiorocketmq.errors import RocketMQError, UnreachableError

logger = logging.getLogger("aiorocketmq.client")

Ask: TypeAlias = Callable[[Address], Awaitable[Frame]]
"""Makes one request of the server at an address."""


class Replicas:
    """Tracks unavailable masters of one client, and reads from their replicas meanwhile."""

    def __init__(self, client: Client, greet: Callable[[str, str], Awaitable[object]]) -> None:
        """`greet` sends a request to the master of a broker that has a topic, and raises if it does not answer."""
        self._client = client
        self._greet = greet
        self._away: set[str] = set()

    def is_away(self, broker: str) -> bool:
        """Whether the master of `broker` has not answered, so that replicas are read until it does."""
        return broker in self._away

    def forget(self) -> None:
        """Take all masters for available: the client starts again."""
        self._away.clear()

    async def change(self, topic: str, broker: BrokerAddresses, ask: Ask) -> Frame:
        """Make a request to the master; raises UnreachableError while it is unavailable. A replica loses changes."""
        try:
            return await ask(master_of(broker))
        except UnreachableError as error:
            self._missed(topic, broker, error)
            raise

    async def read(
        self,
        topic: str,
        broker: BrokerAddresses,
        ask: Ask,
        is_usable: Callable[[Frame], bool] = lambda _: True,
    ) -> Frame:
        """Make a request to the master, or while it is unavailable to the first replica whose answer `is_usable`;
        raises UnreachableError without any. A replica's refusal is ignored: it may lag behind the master."""
        if not (was_away := self.is_away(broker.name)):
            try:
                return await self.change(topic, broker, ask)
            except UnreachableError as error:
                if not self.is_away(broker.name):
                    raise
                failure = error
        tried = []
        for number, address in sorted(broker.addresses.items()):
            if number == MASTER:
                continue
            try:
                answer = await ask(address)
            except RocketMQError as error:
                tried.append(str(error))
            else:
                if is_usable(answer):
                    return answer
                tried.append(f"the replica at {address} has not got so far")
        if was_away:
            try:
                return await self.change(topic, broker, ask)
            except UnreachableError as error:
                failure = error
        raise UnreachableError(
            f"{failure}; and no replica can be read: {'; '.join(tried)}", tried=tuple(tried), topic=topic
        ) from failure

    def _missed(self, topic: str, broker: BrokerAddresses, error: UnreachableError) -> None:
        is_alone = broker.addresses.keys() <= {MASTER}
        if broker.name in self._away or is_alone or not self._client.is_running:
            return
        self._away.add(broker.name)
        logger.warning(
            "the master of broker %s is unavailable, its replicas are read meanwhile: %s",
            broker.name,
            error,
            extra=self._client.log_fields(),
        )
        self._client.supervise(
            self._until_back, topic, broker.name, name=f"waiting for the master of {broker.name}"
        )

    async def _until_back(self, watch: Watch, topic: str, broker: str) -> None:
        while True:
            try:
                await self._greet(topic, broker)
            except RocketMQError as error:
                pause = failure_pause(
                    watch.failed(error), throttled=False, rng=self._client.environment.random
                )
                await asyncio.sleep(pause)
            else:
                break
        self._away.discard(broker)
        logger.warning("the master of broker %s is available again", broker, extra=self._client.log_fields())


def master_of(broker: BrokerAddresses) -> Address:
    """The address for changes; raises UnreachableError without a master."""
    if broker.master is None:
        raise UnreachableError(
            f"broker {broker.name!r} has no master at the moment, by the name servers, and replicas accept no changes"
        )
    return broker.master


def goes_on(answer: Frame, offset: int) -> bool:
    """Whether to follow a replica's answer to a pull from `offset`.

    It may lag behind, and then returns its own end instead; or it has begun later than its master, and returns its own
    begin: following either would repeat or skip messages of the master."""
    try:
        least, end, following = (
            int(answer.fields[name]) for name in ("minOffset", "maxOffset", "nextBeginOffset")
        )
    except (KeyError, ValueError):
        return False
    match answer.code:
        case ResponseCode.SUCCESS:
            return following > offset
        case ResponseCode.PULL_NOT_FOUND:
            return following == offset
        case ResponseCode.PULL_RETRY_IMMEDIATELY:  # scanned, and nothing matched the filter
            return least <= offset < following <= end
        case _:
            return False
