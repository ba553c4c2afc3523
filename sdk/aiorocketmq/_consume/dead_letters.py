"""Keeps a consumer of dead letters from losing them: a server counts their attempts on."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from aiorocketmq._core.settings import Declaration, ServerSettings
from aiorocketmq._session.session import Session
from aiorocketmq.errors import RocketMQError, UsageError
from aiorocketmq.hooks import Role
from aiorocketmq.subscription import DEAD_LETTERS

logger = logging.getLogger(__name__)

_COUNTED_ON = 2
"""How many attempts beyond its group's last one a dead letter begins with (live-broker-consumption.md, 5)."""


async def check_reader(session: Session, topics: Iterable[str]) -> None:
    """Raise UsageError where the group of `session` would lose the dead letters among `topics`.

    A dead letter of a normal group comes as attempt maximum + 2; a reading group that allows fewer has it moved to its
    own dead letters at once, unread (live-lessons.md 5). What the source group allows is asked of the server."""
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
    """What the server allows `group`; None where it cannot be asked, for instance because the group is gone."""
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
