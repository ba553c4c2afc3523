"""Bodies about consumer groups: what is malformed, and orders that others rely on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from aiorocketmq._core.remoting.bodies import (
    offset_file,
    parse_consumers,
    parse_locked,
    parse_offsets,
    subscription,
)
from aiorocketmq._core.route import MessageQueue
from aiorocketmq._core.settings import FilterText


def test_members_are_sorted_and_each_counts_once() -> None:
    """All members of a group compute who owns a queue from the same order."""
    assert parse_consumers(b'{"consumerIdList":["c","a","b","a"]}') == ("a", "b", "c")


def test_only_a_filter_of_tags_has_tags() -> None:
    def tags(wanted: FilterText) -> object:
        return subscription("T", wanted, version=0)["tagsSet"]

    assert tags(FilterText("b || a")) == ["a", "b"]
    assert tags(FilterText("color = 'red' || size", is_sql=True)) == []


@pytest.mark.parametrize(
    ("parse", "body"),
    [
        (parse_consumers, b"{}"),
        (parse_consumers, b"[]"),
        (parse_consumers, b'{"consumerIdList":null}'),
        (parse_consumers, b'{"consumerIdList":["a",7]}'),
        (parse_locked, b"{}"),
        (parse_locked, b'{"lockOKMQSet":null}'),
        (parse_locked, b'{"lockOKMQSet":[{"topic":"T","brokerName":"b"}]}'),
        (parse_locked, b'{"lockOKMQSet":[{"topic":"T","brokerName":"b","queueId":true}]}'),
        (parse_offsets, b'{"offsetTable":[]}'),
        (parse_offsets, b'{"offsetTable":{{"topic":"T","brokerName":"b","queueId":0}:true}}'),
        (parse_offsets, b'{"offsetTable":{{"topic":"T","brokerName":"b","queueId":0}:1.0}}'),
        (parse_offsets, b'{"offsetTable":{{"topic":"T","brokerName":"b","queueId":0}:9223372036854775808}}'),
        (parse_offsets, b'{"offsetTable":{"x":1}}'),
    ],
)
def test_a_malformed_body_is_refused(parse: Callable[[bytes], object], body: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  any reason will do
        parse(body)


def test_a_file_of_offsets_is_in_the_order_of_its_queues_and_read_again() -> None:
    offsets = {MessageQueue(topic, "b", number): number for topic in ("b", "a") for number in (2, 0)}
    text = offset_file(offsets)
    assert list(parse_offsets(text.encode())) == sorted(offsets)
    assert parse_offsets(text.encode()) == offsets
    assert parse_offsets(offset_file({}).encode()) == {}
