"""Operations that only a fake in this process supports."""

from __future__ import annotations

from aiorocketmq_fake.broker import FakeBroker

from aiorocketmq_conformance.target import Verified


class FakePrivileges:
    """Privileges of a fake that was started for one case."""

    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker

    async def verify_message(self, client_id: str, topic: str, message_id: str) -> Verified | None:
        """Ask a consumer to verify a stored message; None without a reply."""
        reply = await self._broker.verify_message(client_id, topic, message_id)
        return None if reply is None else Verified(reply.code)

    async def limit_rate(self, rpc: str, per_second: float | None) -> None:
        """Limit the rate of an RPC; None removes the limit."""
        await self._broker.limit_rate(rpc, per_second)

    async def bound_lite_topics(self, topic: str, *, seconds: float | None = None, count: int = 0) -> None:
        """Let lite topics of a parent expire `seconds` after their last message, and limit them to `count`."""
        (topic_view,) = (one for one in self._broker.topics() if one.name == topic)
        await self._broker.update_topic(
            topic, type="LITE", queues=topic_view.read_queues, lite_expiration=seconds, lite_limit=count
        )

    async def jump_clock(self, seconds: float) -> None:
        """Set the broker's clock forward or back, as a machine's clock is set."""
        self._broker.clock.jump(seconds)
