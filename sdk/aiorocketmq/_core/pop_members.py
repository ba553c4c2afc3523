"""Which members of a group receive messages (pop) instead of owning queues, by the form of their client ids."""

from __future__ import annotations

import re
from collections.abc import Iterable

_GRPC = re.compile(r"[^@]+@\d+@\d+@(?!STREAM$)[0-9A-Za-z]+")
"""`host@process@number@base36`: ours, and those of Apache's 5.x clients but Rust's (client-behaviour.md 5.1). Classic
ids are `ip@instance`, with `@unit` and `@STREAM` behind it in some clients."""


def pop_members(client_ids: Iterable[str]) -> tuple[str, ...]:
    """Ids of gRPC clients; no classic client has such an id."""
    return tuple(each for each in client_ids if _GRPC.fullmatch(each))


def unclear_members(client_ids: Iterable[str]) -> tuple[str, ...]:
    """Ids that no client of Apache's has, of either protocol."""
    return tuple(each for each in client_ids if "@" not in each)
