"""Cores with one injected fault each, to prove that an audit detects it.

Example: `FakeBroker(core=FAULTY_CORES["early-retry"])`. The fault goes through the wire, the client and the recording.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from aiorocketmq_fake.core.broker import Broker, Parts
from aiorocketmq_fake.core.commands.leasing import Leasing
from aiorocketmq_fake.core.commands.polls import Poll
from aiorocketmq_fake.core.commands.receiving import Receiving, Taken
from aiorocketmq_fake.core.records.consumption import Consumption
from aiorocketmq_fake.core.records.groups import retry_policy
from aiorocketmq_fake.core.records.leases import Lease
from aiorocketmq_fake.core.records.timers import Timer
from aiorocketmq_fake.core.state import milliseconds
from aiorocketmq_fake.core.values.model import ReceiveRequest

__all__ = ["FAULTY_CORES"]


class _SwapsOnce(Receiving):
    """Swaps two messages of one message group in one answer, once (R8.5)."""

    _has_struck = False

    def _take_ordered(self, poll: Poll[ReceiveRequest], consumption: Consumption, limit: int) -> Taken:
        taken = super()._take_ordered(poll, consumption, limit)
        last_of: dict[tuple[int, str], int] = {}
        for place, (message, _, before, _) in enumerate(taken):
            group_queue = (message.queue_id, message.content.message_group)
            if (
                not self._has_struck
                and group_queue in last_of
                and before == 0
                and taken[last_of[group_queue]][2] == 0
            ):
                taken[last_of[group_queue]], taken[place] = taken[place], taken[last_of[group_queue]]
                self._has_struck = True
            last_of[group_queue] = place
        return taken


class _DeliversTwice(Leasing):
    """Delivers one message of a normal group again during its first lease (R5.1)."""

    _has_struck = False

    def schedule(self, lease: Lease) -> None:
        super().schedule(lease)
        if not self._has_struck and lease.order is None and lease.attempt == 1 and not lease.changed:
            self._has_struck = True
            # By a timer, so that the legal delivery is recorded before the illegal one.
            self._state.timers.set(_Copying(lease), self._state.now, self._copy)

    def _copy(self, copying: _Copying) -> None:
        self._redelivery.redeliver(copying.lease)


class _Copying(Timer):
    """Timer of the second delivery."""

    __slots__ = ("lease",)

    def __init__(self, lease: Lease) -> None:
        super().__init__()
        self.lease = lease


class _ReturnsEarly(Leasing):
    """Redelivers one negatively acknowledged message after half of its retry interval (R7.3)."""

    _has_struck = False

    def schedule(self, lease: Lease) -> None:
        super().schedule(lease)
        now = self._state.now
        if not self._has_struck and lease.changed and lease.expires - now == self._step(lease):
            self._has_struck = True
            self._state.timers.set(lease, now + (lease.expires - now) // 2, self._redelivery.expire)

    def _step(self, lease: Lease) -> int | None:
        policy = retry_policy(lease.consumption.group.config, self._state.profile)
        if not policy.steps:
            return None
        return milliseconds(policy.steps[min(lease.attempt, len(policy.steps)) - 1])


FAULTY_CORES: Mapping[str, Callable[..., Broker]] = MappingProxyType(
    {
        "reordering": partial(Broker, parts=Parts(receiving=_SwapsOnce)),
        "double-delivery": partial(Broker, parts=Parts(leasing=_DeliversTwice)),
        "early-retry": partial(Broker, parts=Parts(leasing=_ReturnsEarly)),
    }
)
"""Factories of cores by fault."""
