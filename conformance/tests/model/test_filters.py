"""Filters of plans mean what servers read: the fake's parser, in both dialects, agrees with them."""

from __future__ import annotations

import random

import pytest
from aiorocketmq_conformance.explore.expressions import SQL, filter_of
from aiorocketmq_conformance.explore.producing import properties_of
from aiorocketmq_conformance.model.calls import Content
from aiorocketmq_fake.core.filters.sql.parser import parse
from aiorocketmq_fake.core.values.sql_dialect import PUBLISHED, SERVER


def content(tag: str | None, salt: int = 0) -> Content:
    return Content(id="m", topic="t", body="b", tag=tag, properties=properties_of(1, salt))


@pytest.mark.parametrize("dialect", [PUBLISHED, SERVER], ids=["published", "server"])
def test_an_expression_means_what_servers_read(dialect: object) -> None:
    source, selected = random.Random(4), 0
    for number in range(400):
        filter_ = filter_of(f"{SQL}{number}")
        node = parse(filter_.text, dialect)  # type: ignore[arg-type]  # one of two dialects
        for _ in range(20):
            one = content(source.choice((None, "a", "ab")), source.randrange(240))
            values = dict(one.properties) | ({} if one.tag is None else {"TAGS": one.tag})
            is_selected = filter_.selects(one)
            assert is_selected is (node.evaluate(values.get) is True), (filter_.text, values)
            selected += is_selected
    assert 1000 < selected < 7000


@pytest.mark.parametrize(
    ("filter_", "selected"),
    [
        ("*", ["a", "ab", None]),
        ("", ["a", "ab", None]),
        ("a", ["a"]),
        ("a||ab", ["a", "ab"]),
        (" a || b ", ["a"]),
        ("||a", ["a"]),
        ("b", []),
    ],
)
def test_a_list_of_tags(filter_: str, selected: list[str | None]) -> None:
    assert [tag for tag in ("a", "ab", None) if filter_of(filter_).selects(content(tag))] == selected
