"""Tag expressions, and which messages match them."""

from __future__ import annotations

import pytest
from aiorocketmq._core.tags import matches_tags, parse_tags


@pytest.mark.parametrize(
    ("expression", "tags"),
    [
        ("*", set()),
        ("", set()),
        (" * ", set()),
        ("a", {"a"}),
        ("a||b", {"a", "b"}),
        (" a || b ||", {"a", "b"}),
        ("a || *", {"a", "*"}),
        ("a | b", {"a | b"}),
        ("a b", {"a b"}),
        ("\u3000a", {"\u3000a"}),
        ("\ta\x1f||\x00b", {"a", "b"}),
        ("!a! ||\x20b\x20", {"!a!", "b"}),
    ],
)
def test_tags_of_an_expression(expression: str, tags: set[str]) -> None:
    assert parse_tags(expression) == tags


@pytest.mark.parametrize("expression", ["||", " || || "])
def test_an_expression_names_a_tag(expression: str) -> None:
    with pytest.raises(ValueError, match="names no tag"):
        parse_tags(expression)


@pytest.mark.parametrize(
    ("expression", "tag", "is_match"),
    [
        ("*", "a", True),
        ("*", None, True),
        ("a || b", "a", True),
        ("a || b", "c", False),
        ("a || b", None, False),
        ("a || *", "c", False),
        ("A", "a", False),
        ("Aa", "BB", False),
    ],
)
def test_messages_that_match(expression: str, tag: str | None, is_match: bool) -> None:
    """`Aa` and `BB` have the same hash in Java, so brokers deliver both (live-broker-remoting.md 4)."""
    assert matches_tags(parse_tags(expression), tag) is is_match
