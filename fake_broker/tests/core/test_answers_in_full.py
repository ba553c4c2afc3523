"""Chapters of a broker's life in which each call and its answer are compared with files, line by line.

After an intended change, remove the file: the test writes it again and fails once; review the difference.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable

import pytest
from aiorocketmq_fake.core.values.profile import Profile
from aiorocketmq_fake.core.values.profiles import APACHE_5_5, APACHE_5_5_CLUSTER, DOCUMENTED, PROFILES

from fake_broker.tests.chapters.listed import CHAPTERS, TURNED, read
from fake_broker.tests.chapters.told import Told
from fake_broker.tests.story import check


@pytest.mark.parametrize("name", ["documented", "apache-5.5"])
@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.__name__)
def test_every_answer_of_a_chapter(chapter: Callable[[Told], None], name: str) -> None:
    check(f"answers/{name}/{chapter.__name__}.txt", read(PROFILES[name], chapter).lines)


@pytest.mark.parametrize(
    ("name", "usual", "other"),
    [("apache-5.5-cluster", APACHE_5_5, APACHE_5_5_CLUSTER), ("turned", DOCUMENTED, TURNED)],
    ids=["separate-proxy", "turned"],
)
@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.__name__)
def test_what_another_profile_answers_otherwise(
    chapter: Callable[[Told], None], name: str, usual: Profile, other: Profile
) -> None:
    changes = difflib.unified_diff(read(usual, chapter).lines, read(other, chapter).lines, n=0, lineterm="")
    check(f"answers/{name}/{chapter.__name__}.txt", [line for line in changes if line[:2] != "@@"][2:])
