"""Every event of a long story, and the state of its broker in between, value by value."""

from __future__ import annotations

import pytest
from aiorocketmq_fake.core.values.profiles import PROFILES

from fake_broker.tests.core.conftest import Desk
from fake_broker.tests.story import check, shown, tell


@pytest.mark.parametrize("name", PROFILES)
def test_a_story_is_told_in_full(name: str) -> None:
    desk = Desk(PROFILES[name])
    states = list(tell(desk))
    check(f"{name}.txt", [*states, *map(shown, desk.broker.take_events())])
