"""Chapters of a broker's life, told call by call with answers, events and what is sent to others."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from aiorocketmq_fake.core.values.codes import TopicType
from aiorocketmq_fake.core.values.profile import Profile
from aiorocketmq_fake.core.values.profiles import DOCUMENTED

from fake_broker.tests.chapters.administering import catalogue, rates, rights, salvaged, sessions
from fake_broker.tests.chapters.consuming import order, receives, renewals, settling, tries
from fake_broker.tests.chapters.producing import batches, delays, messages, transactions
from fake_broker.tests.chapters.protocols import classic, lite
from fake_broker.tests.chapters.reading import expressions, offsets, pulls, routes
from fake_broker.tests.chapters.told import Told

CHAPTERS: tuple[Callable[[Told], None], ...] = (
    routes,
    pulls,
    offsets,
    rates,
    rights,
    messages,
    batches,
    receives,
    settling,
    order,
    classic,
    sessions,
    catalogue,
    delays,
    transactions,
    lite,
    renewals,
    tries,
    expressions,
    salvaged,
)


def read(profile: Profile, chapter: Callable[[Told], None]) -> Told:
    """Run a chapter under a profile."""
    ordered = {"ordered": True, "type": TopicType.FIFO} if chapter is order else {}
    told = Told(replace(profile, half_lifetime=200.0) if chapter is transactions else profile, **ordered)
    chapter(told)
    told.lines = [line if len(line) <= 600 else f"{line[:560]} ... {line[-40:]}" for line in told.lines]
    return told


def _turned() -> Profile:
    choices = ((field.name, getattr(DOCUMENTED, field.name)) for field in dataclasses.fields(DOCUMENTED))
    opposite: dict[str, Any] = {name: not choice for name, choice in choices if isinstance(choice, bool)}
    return replace(DOCUMENTED, **opposite)


TURNED = _turned()
"""The opposite of all that the documented profile decides by yes or no."""
