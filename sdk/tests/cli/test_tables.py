"""Results are printed as columns, as lines if columns are too wide for the terminal, or as JSON."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from aiorocketmq.cli.tables import show
from aiorocketmq.message import MessageQueue, MessageType

from sdk.tests.cli.terminal import in_terminal

WIDE = [{"id": "A" * 40, "at": "x" * 40, "tag": None}, {"id": "B", "at": None, "tag": None}]


def test_a_pipe_gets_whole_names_in_columns(capsys: pytest.CaptureFixture[str]) -> None:
    show(WIDE, as_json=False)
    head, first, second = capsys.readouterr().out.splitlines()
    assert (head.split(), second.split()) == (["id", "at"], ["B", "-"])
    assert first == f"{'A' * 40}  {'x' * 40}"


def test_zeros_are_values(capsys: pytest.CaptureFixture[str]) -> None:
    show([{"lag": 0, "ordered": False, "at": None, "tag": "", "keys": []}], as_json=False)
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["lag", "ordered"],
        ["0", "no"],
    ]


def test_each_kind_of_value_is_one_word_for_people_and_plain_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    values = {
        "type": MessageType.FIFO,
        "at": datetime(2026, 1, 31, 18, tzinfo=timezone(timedelta(hours=2))),
        "place": MessageQueue("orders", "broker-a", 3),
        "backoff": (1.0, 2.5),
        "keys": [],
        "properties": {},
        "more": {"tags": ("a", "b")},
    }
    show(values, as_json=True)
    assert json.loads(capsys.readouterr().out) == {
        "type": MessageType.FIFO.value,
        "at": "2026-01-31T16:00:00.000+00:00",
        "topic": "orders",
        "broker": "broker-a",
        "queue": 3,
        "backoff": [1.0, 2.5],
        "keys": [],
        "properties": {},
        "more": {"tags": ["a", "b"]},
    }
    show({**values, "at": None}, as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        f"type: {MessageType.FIFO.value}",
        "at: -",
        "topic: orders",
        "broker: broker-a",
        "queue: 3",
        "backoff: 1 2.5",
        "keys: -",
        "properties: -",
        "more: tags: a b",
    ]


def test_a_narrow_terminal_gets_a_line_for_each_field() -> None:
    code = f"from aiorocketmq.cli.tables import show; show({WIDE!r}, as_json=False)"
    assert in_terminal(code) == f"id  {'A' * 40}\nat  {'x' * 40}\n\nid  B\n"


def test_a_terminal_gets_columns_that_fit() -> None:
    code = f"from aiorocketmq.cli.tables import show; show([{{'a': 1, 'b': {'x' * 77!r}}}], as_json=False)"
    assert in_terminal(code) == f"a  b\n1  {'x' * 77}\n"


def test_times_are_local_for_people_and_in_utc_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    show({"at": datetime(2026, 1, 31, 18, tzinfo=UTC)}, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"at": "2026-01-31T18:00:00.000+00:00"}
    code = (
        "from datetime import UTC, datetime; from aiorocketmq.cli.tables import show;"
        "show({'at': datetime(2026, 1, 31, 18, tzinfo=UTC)}, as_json=False)"
    )
    assert in_terminal(code, environment={"TZ": "JST-9"}) == "at: 2026-02-01T03:00:00.000+09:00\n"


def test_hidden_fields_are_for_machines_only(capsys: pytest.CaptureFixture[str]) -> None:
    show([{"a": 1, "b": 2}], as_json=False, hidden=["b"])
    show([{"a": 1, "b": 2}], as_json=True, hidden=["b"])
    assert capsys.readouterr().out == 'a\n1\n[{"a": 1, "b": 2}]\n'


def test_bodies_come_last_and_are_base64_if_they_are_no_text(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"body": b"text", "queue": 0}, {"body": b"\xff", "queue": 1}]
    show(rows, as_json=True)
    show(rows, as_json=False)
    first, *table = capsys.readouterr().out.splitlines()
    assert json.loads(first) == [{"body": "text", "queue": 0}, {"body_base64": "/w==", "queue": 1}]
    assert [line.split() for line in table] == [
        ["queue", "body", "body_base64"],
        ["0", "text", "-"],
        ["1", "-", "/w=="],
    ]


def test_nothing_is_printed_for_nothing_but_null_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    show(None, as_json=False)
    show([], as_json=False)
    show(None, as_json=True)
    assert capsys.readouterr().out == "null\n"


def test_no_terminal_obeys_a_recorded_name(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "[red]g[/] :bomb: \x1b]0;owned\x07\n::error::\x9b2J"
    show([{"name": hostile, "keys": [hostile]}], as_json=False)
    show({hostile: hostile}, as_json=False)
    show([{"name": hostile}], as_json=True)
    printed = capsys.readouterr().out
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]|^\s*::", printed, re.MULTILINE)
    assert "[red]g[/] :bomb:" in printed, "neither markup nor emoji"
    assert json.loads(printed.splitlines()[-1]) == [{"name": hostile}]
