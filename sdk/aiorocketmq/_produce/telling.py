"""Tells the observers of a producer about its operations: that one begins, and how it ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from aiorocketmq._session.client import Client
from aiorocketmq.errors import RocketMQError
from aiorocketmq.hooks import Event, Phase


@contextmanager
def told(client: Client, event: Event) -> Iterator[None]:
    """`event` when the block begins, and again when it ends, each time with its phase; the block's error goes on."""
    if not client.telling.is_watched:
        yield
        return
    event = replace(event, operation=client.next_operation())
    client.telling.event(replace(event, phase=Phase.INVOKE))
    try:
        yield
    except RocketMQError as error:
        phase = Phase.INFO if error.may_have_taken_effect else Phase.FAIL
        client.telling.event(replace(event, phase=phase, error=error))
        raise
    except BaseException:
        client.telling.event(replace(event, phase=Phase.INFO))
        raise
    client.telling.event(replace(event, phase=Phase.OK))
