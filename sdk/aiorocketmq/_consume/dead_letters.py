"""Prevents a consumer of dead letters from losing them: servers continue to count their attempts."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from aiorocketmq._core.settings import Declaration, ServerSettings
from aiorocketmq._session.session import Session
from aiorocketmq.errors import RocketMQError, UsageError
from aiorocketmq.hooks import Role
from aiorocketmq.subscription import DEAD_LETTERS

logger = logging.getLogger("aiorocketmq.consumer")

_COUNTED_ON = 2
"""Attempts beyond its group's maximum with which a dead letter begins (live-broker-consumption.md, 5)."""


async def check_reader(session: Session, topics: Iterable[str]) -> None:
    """Raise UsageError if the group of `session` would lose the dead letters among `topics`.

    A dead letter of a normal group arrives as attempt maximum + 2; if the reading group allows fewer, the server moves
    it to that group's own dead letters, unread (live-lessons.md 5). The maximum of the source group is requested from
    the server."""
    for topic in topics:
        if not topic.startswith(DEAD_LETTERS):
            continue
        group = topic.removeprefix(DEAD_LETTERS)
        source = await _settings_of(session, group)
        needed = 1 if source is None or source.ordered else source.backoff.max_attempts + _COUNTED_ON
        allowed = session.settings.backoff.max_attempts
        if allowed < needed:
            raise UsageError(
                f"group {session.group!r} allows {allowed} attempts, and the dead letters of {group!r} begin with "
                f"attempt {needed}: it would lose them to its own ones; read them with a group that allows more",
                topic=topic,
                group=session.group,
            )


async def _settings_of(session: Session, group: str) -> ServerSettings | None:
    """The maximum of `group` at the server; None if it is unknown, for instance because the group was deleted."""
    asking = Session(
        session.network, Declaration(client_type="SIMPLE_CONSUMER", group=group), role=Role.SIMPLE
    )
    try:
        await asking.start()
    except RocketMQError as error:
        logger.warning(
            "whether group %r may read dead letters of %r is not known: %s", session.group, group, error
        )
        return None
    await asking.stop()
    return asking.settings
