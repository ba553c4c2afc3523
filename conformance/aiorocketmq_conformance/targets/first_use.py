"""Topics and groups of a broker that creates them at first use."""

from __future__ import annotations

from aiorocketmq_conformance.fixture import open_fixture
from aiorocketmq_conformance.target import DEFAULT_QUEUES, GroupSettings, Target
from aiorocketmq_conformance.targets.remoting_admin import NoAdmin
from aiorocketmq_conformance.verdicts import NotApplicable


class FirstUse(NoAdmin):
    """Creates a topic by sending its first message; groups are created by their first consumer.

    The broker chooses their settings: a topic for normal messages, with the broker's default number of queues,
    and a group with the broker's defaults. Cases that need others are not applicable.
    """

    _REASON = "topics and groups that a broker creates at first use cannot be changed: pass --namesrv"

    def __init__(self, target: Target) -> None:
        self._target = target

    async def create_topic(self, name: str, *, type: str, queues: int, permission: str) -> None:  # noqa: A002
        """Send the first message of a topic; AssertionError with the server's text if it is refused."""
        if type != "NORMAL" or permission != "rw":
            raise NotApplicable(
                f"at first use the broker creates no {type} topic with permission {permission!r}"
            )
        async with open_fixture(self._target) as fixture:
            (sent,) = await fixture.send(name, "first use")
            self._target.first_uses.add(sent.id)
            if queues != DEFAULT_QUEUES:
                route = await (await fixture.producer(name)).query_route(name)
                created = len(route.message_queues)
                if created != queues:
                    raise NotApplicable(
                        f"at first use the broker creates topics with {created} queues, not {queues}"
                    )

    async def create_group(self, name: str, settings: GroupSettings) -> None:
        """Check that the broker's defaults suffice: the first consumer creates the group."""
        if settings != GroupSettings():
            raise NotApplicable(
                "at first use the broker creates groups with its defaults, not with these settings"
            )
