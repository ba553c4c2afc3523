"""A store on a Redis server, shared by any number of machines."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from aiorocketmq._deduplication.interface import Claim
from aiorocketmq.errors import UsageError

if TYPE_CHECKING:
    from redis.asyncio import Redis

# The value of a key is `done`, or `by ` and the owner of its claim; Redis lets both expire by itself.
_DONE = "done"
_CLAIM = """
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then return held end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ARGV[1]
"""
_REPLACE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
"""
_REMOVE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
"""


class RedisStore:
    """Store on a Redis server (5 or newer; extra `redis`), for all consumers of a group on any machine.

    `server` is a URL, `redis://localhost:6379/0`, whose connections are closed on leaving `async with`, or a
    `redis.asyncio.Redis` of yours, which stays open. Keys begin with `prefix`. A key lives on one server: a failover to
    a replica that lags may forget claims."""

    def __init__(self, server: str | Redis, *, prefix: str = "aiorocketmq:handled:") -> None:
        self._owns = isinstance(server, str)
        self._redis = _connected(server) if isinstance(server, str) else server
        self._prefix = prefix
        self._claim = self._redis.register_script(_CLAIM)
        self._replace = self._redis.register_script(_REPLACE)
        self._remove = self._redis.register_script(_REMOVE)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owns:
            await self._redis.aclose()

    async def claim(self, key: str, owner: str, seconds: float) -> Claim:
        """Grant `key` to `owner` as `DeduplicationStore.claim` does, in one round trip to Redis; raises its errors."""
        held = await self._claim(keys=[self._prefix + key], args=[_by(owner), _milliseconds(seconds)])
        value = held.decode() if isinstance(held, bytes) else held
        if value == _by(owner):
            return Claim.GRANTED
        return Claim.DONE if value == _DONE else Claim.HELD

    async def renew(self, key: str, owner: str, seconds: float) -> None:
        """Extend the claim of `owner` to `seconds` from now; no effect without the claim."""
        await self._replace(keys=[self._prefix + key], args=[_by(owner), _by(owner), _milliseconds(seconds)])

    async def done(self, key: str, owner: str, seconds: float) -> None:
        """Mark `key` as done for `seconds`; no effect without the claim of `owner`."""
        await self._replace(keys=[self._prefix + key], args=[_by(owner), _DONE, _milliseconds(seconds)])

    async def release(self, key: str, owner: str) -> None:
        """Release the claim of `owner`; no effect without it."""
        await self._remove(keys=[self._prefix + key], args=[_by(owner)])


def _by(owner: str) -> str:
    return f"by {owner}"


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _connected(url: str) -> Redis:
    try:
        from redis.asyncio import Redis
    except ModuleNotFoundError as missing:
        raise UsageError(
            f"RedisStore needs {missing.name}: run pip install 'aiorocketmq[redis]'."
        ) from missing
    return Redis.from_url(url)
