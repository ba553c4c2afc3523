"""Every event of a long story, the state of its broker in between, and all numbers of profiles, value by value."""

from __future__ import annotations

import dataclasses

import pytest
from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.profiles import PROFILES

from fake_broker.tests.core.conftest import Desk
from fake_broker.tests.story import check, play, shown


@pytest.mark.parametrize("name", ["documented", "apache-5.5"])
def test_a_story_is_told_in_full(name: str) -> None:
    desk = Desk(PROFILES[name])
    states = list(play(desk))
    check(f"{name}.txt", [*states, *map(shown, desk.broker.take_events())])


def test_every_choice_of_the_profiles_and_every_limit() -> None:
    choices = [
        f"{name} {field.name} = {_shown(getattr(profile, field.name))}"
        for name, profile in PROFILES.items()
        for field in dataclasses.fields(profile)
    ]
    numbers = [f"{name} = {_shown(value)}" for name, value in vars(limits).items() if name.isupper()]
    check("choices.txt", [*choices, *numbers])


def _shown(value: object) -> str:
    return shown(sorted(value, key=str)) if isinstance(value, frozenset) else shown(value)
