"""TAG filters from strangers: judged in bounded time, whatever they hold."""

import time
from typing import Any

import pytest
from aiorocketmq_fake.core.filters.expressions import parse
from aiorocketmq_fake.core.values.codes import Code, FilterType, Refusal
from aiorocketmq_fake.core.values.limits import TAGS_LENGTH_MAX
from aiorocketmq_fake.core.values.model import FilterExpression
from aiorocketmq_fake.core.values.profiles import PROFILES
from hypothesis import given, strategies as st

EVERY_PROFILE = pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)


def tags(text: str) -> FilterExpression:
    return FilterExpression(type=FilterType.TAG, expression=text)


@EVERY_PROFILE
@pytest.mark.parametrize(
    "text",
    ["x" * 50_000_000, "a||" * 10_000_000, "|" * 50_000_000, " " * 50_000_000],
    ids=["one long tag", "many tags", "separators", "blanks"],
)
def test_an_endless_tag_expression_is_refused_at_once(profile: Any, text: str) -> None:
    began = time.process_time()
    with pytest.raises(Refusal) as refused:
        parse(tags(text), profile)
    assert refused.value.code is Code.ILLEGAL_FILTER_EXPRESSION
    assert len(refused.value.message) < 200
    assert time.process_time() - began < 0.5


@EVERY_PROFILE
def test_a_tag_expression_of_the_greatest_length_is_soon_read(profile: Any) -> None:
    text = "||".join(f"{number:04x}" for number in range(TAGS_LENGTH_MAX // 6))
    began = time.process_time()
    assert parse(tags(text), profile) is not None
    assert time.process_time() - began < 1.0


@given(text=st.text(max_size=200), profile=st.sampled_from(list(PROFILES.values())))
def test_any_text_is_a_tag_filter_or_is_refused_in_one_sentence(text: str, profile: Any) -> None:
    if text not in ("", "*") and not text.replace("||", "").strip():
        with pytest.raises(Refusal, match="names no tag"):
            parse(tags(text), profile)
    else:
        assert (parse(tags(text), profile) is None) == (text in ("", "*"))
