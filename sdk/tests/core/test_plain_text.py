"""Received text on a terminal: what is escaped, and that the audit, which imports nothing of ours, does the same."""

from __future__ import annotations

import sys

import pytest
from aiorocketmq._core.plain_text import plain, plain_lines
from aiorocketmq_audit.text import plain as plain_of_the_audit

TEXTS = (
    "orders::eu [x]",
    "a\x1b[31mb\r\n",
    "a\n::error::no",
    "::set-output name=x",
    " ::warning::x",
    "##[group]",
    "\x9b2J \u202e \u2028 \ud800 \x7f",
    "größe 消息 👩\u200d🚀",
)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("orders::eu [x]", "orders::eu [x]"),
        ("a\x1b[31mb\t", r"a\u001b[31mb\u0009"),
        ("a\n::error::no", r"a\u000a\u003a\u003aerror::no"),
        ("##[error]", r"\u0023\u0023\u005berror]"),
        ("消息 👩\u200d🚀", "消息 👩\u200d🚀"),
    ],
)
def test_plain_text_is_one_line_that_nothing_obeys(text: str, printed: str) -> None:
    assert plain(text) == printed


def test_lines_stay_lines_and_none_is_a_command() -> None:
    assert plain_lines("a\r\n::error::b\rc\n") == "a\n\\u003a\\u003aerror::b\\u000dc\n"


def test_the_audit_prints_every_text_alike() -> None:
    every = [chr(number) for number in range(sys.maxunicode + 1)]
    assert [plain(char) for char in every] == [plain_of_the_audit(char) for char in every]
    assert [plain(text) for text in TEXTS] == [plain_of_the_audit(text) for text in TEXTS]
