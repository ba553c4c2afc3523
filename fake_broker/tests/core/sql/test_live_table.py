"""SQL expressions against what a real server did with them."""

import json
from importlib.resources import files
from typing import Any

import pytest
from aiorocketmq_fake.core.filters.expressions import parse
from aiorocketmq_fake.core.values.codes import Code, FilterType, MessageType, Refusal
from aiorocketmq_fake.core.values.model import FilterExpression, OutgoingMessage, StoredMessage
from aiorocketmq_fake.core.values.profiles import APACHE_5_5

TABLE: dict[str, Any] = json.loads(
    files("aiorocketmq_conformance.cases.filters").joinpath("sql_table.json").read_text("utf-8")
)


def stored(message_id: str, tag: str, keys: list[str], properties: dict[str, str]) -> StoredMessage:
    content = OutgoingMessage(
        "sql", b"x", message_id, tag, tuple(keys), properties, born_timestamp=1.7e9, born_host="127.0.0.1:1"
    )
    return StoredMessage(content, MessageType.NORMAL, "sql", 0, 0, 1, 1.7e9)


MESSAGES = [stored(message_id, **fields) for message_id, fields in TABLE["messages"].items()]


@pytest.mark.parametrize(("text", "expected"), TABLE["matches"].items(), ids=repr)
def test_an_expression_matches_what_it_matched_on_a_real_server(text: str, expected: str) -> None:
    expression = FilterExpression(text, FilterType.SQL)
    if expected == "refused":
        with pytest.raises(Refusal) as caught:
            parse(expression, APACHE_5_5)
        assert caught.value.code is Code.INTERNAL_SERVER_ERROR
        return
    filter_ = parse(expression, APACHE_5_5)
    assert filter_ is not None
    selected = [message.content.message_id for message in MESSAGES if filter_.selects(message)]
    assert " ".join(selected) == expected


def test_the_table_is_large_enough_to_mean_something() -> None:
    assert len(TABLE["matches"]) > 600
    assert sum(result == "refused" for result in TABLE["matches"].values()) > 100
