"""Throttling: calls above a set rate are refused as a busy server refuses them (13.1)."""

from collections.abc import Mapping
from types import MappingProxyType

from aiorocketmq_fake.core.state import State
from aiorocketmq_fake.core.values.choices import ALL_RPCS
from aiorocketmq_fake.core.values.codes import Code, Refusal


class Throttle:
    """A token bucket for each limited RPC: it holds at most one second's calls (at least one)."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._buckets: dict[str, _Bucket] = {}
        self.limits = False
        """Whether any RPC is limited."""

    @property
    def rates(self) -> Mapping[str, float]:
        """Limits in calls per second, by RPC; others are not limited."""
        return MappingProxyType({rpc: bucket.rate for rpc, bucket in self._buckets.items()})

    def limit(self, rpc: str, per_second: float | None) -> None:
        """Limit an RPC to `per_second` calls, 0 for none; None lifts the limit. ValueError for other values."""
        if rpc not in ALL_RPCS:
            raise ValueError(f"rpc must be one of {', '.join(sorted(ALL_RPCS))}, got {rpc!r}")
        if per_second is None:
            self._buckets.pop(rpc, None)
        elif 0 <= per_second < 1e9:
            self._buckets[rpc] = _Bucket(per_second, self._state.now)
        else:
            raise ValueError(f"per_second must be 0 or more, or None; got {per_second}")
        self.limits = bool(self._buckets)

    def take(self, command: str) -> None:
        """Count a call. Refused: TOO_MANY_REQUESTS, for sends the profile's `busy_send_code` (R1.3, R1.9)."""
        bucket = self._buckets.get(command)
        if bucket is None or bucket.take(self._state.now):
            return
        code = self._state.profile.busy_send_code if command == "SendMessage" else Code.TOO_MANY_REQUESTS
        raise Refusal(code, f"flow limit: more than {bucket.rate:g} calls of {command} per second.")


class _Bucket:
    """A token bucket, refilled by the millisecond."""

    __slots__ = ("_calls", "_filled_at", "rate")

    def __init__(self, rate: float, now: int) -> None:
        self.rate = rate
        self._calls = max(rate, 1.0) if rate else 0.0
        self._filled_at = now

    def take(self, now: int) -> bool:
        full = max(self.rate, 1.0) if self.rate else 0.0
        self._calls = min(full, self._calls + self.rate * (now - self._filled_at) / 1000)
        self._filled_at = now
        if self._calls < 1.0:
            return False
        self._calls -= 1.0
        return True
