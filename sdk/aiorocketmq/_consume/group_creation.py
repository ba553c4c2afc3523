"""Creates a consumer group on servers that refuse the settings of an unknown one."""

from __future__ import annotations

import logging
from dataclasses import replace

from aiorocketmq._consume.receive import receive
from aiorocketmq._core.route import RouteQueue
from aiorocketmq._core.settings import Declaration, FilterText
from aiorocketmq._session.session import Session
from aiorocketmq._transport.network import Network
from aiorocketmq.errors import GroupNotFoundError, IllegalFilterError, RocketMQError, ServerError
from aiorocketmq.hooks import Role

logger = logging.getLogger("aiorocketmq.consumer")

_NO_FILTER = FilterText("((", is_sql=True)
"""Not SQL: servers look the group up, and create it, before they parse the filter; so no message is leased."""


async def create_group(network: Network, group: str, topic: str) -> None:
    """Let the server create `group`, if it supports that, without leasing a message.

    A receive creates the group, settings do not (live-broker-session.md 2.4); and a receive needs settings of some
    kind, which are those of a short-lived producer here. Raises connection errors; that a server creates no groups
    shows at the consumer's own start."""
    session = Session(network, Declaration(client_type="PRODUCER", topics=(topic,)), role=Role.PRODUCER)
    await session.start()
    try:
        session.group = group
        for queue in (await session.route(topic)).readable_brokers[:1]:
            await _receive_nothing(session, replace(queue, queue=queue.queue._replace(id=-1)))
    finally:
        await session.stop()


async def _receive_nothing(session: Session, source: RouteQueue) -> None:
    try:
        await receive(session, source, _NO_FILTER, max_messages=1, poll=5.0, invisible=30.0)
    except (ServerError, IllegalFilterError, GroupNotFoundError) as error:
        logger.debug("created group %r on %s: %s", session.group, source.endpoint, error)
    except RocketMQError as error:
        logger.info("group %r could not be created: %s", session.group, error)
