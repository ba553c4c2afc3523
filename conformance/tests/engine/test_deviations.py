"""Deviation files: what they may say, and what is refused."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from aiorocketmq_conformance.deviations import Deviation, InvalidDeviationsError, bundled, parse, read

TODAY = date(2026, 11, 21)
GOOD = """
[[deviation]]
case = "send.a"
reason = "answers late"
source = "page 1"
first_seen = 2026-11-01
review = 2026-11-22
"""


def parsed(text: str) -> dict[str, Deviation]:
    return dict(parse(text, file="file", known={"send.a", "send.b[x]"}, today=TODAY))


def test_an_entry_has_its_fields() -> None:
    assert parsed(GOOD) == {
        "send.a": Deviation("send.a", "answers late", "page 1", date(2026, 11, 1), date(2026, 11, 22))
    }


def test_an_empty_file_has_no_deviations() -> None:
    assert parsed("# nothing\n") == {}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[[deviation]]\ncase = "send.a"\nsource = "x"', "send.a has no reason"),
        ('[[deviation]]\ncase = "send.a"\nreason = " "\nsource = "x"', "send.a has no reason"),
        ('[[deviation]]\ncase = "send.a"\nreason = "x"', "send.a has no source"),
        ('[[deviation]]\nreason = "x"\nsource = "x"', "an entry has no case"),
        (GOOD + GOOD, "names send.a twice"),
        (GOOD.replace("send.a", "send.c"), "names send.c, which is not a case"),
        (GOOD.replace("11-22", "11-21"), "was due on 2026-11-21"),
        (GOOD + 'because = "x"', "unknown keys because"),
        (GOOD.replace("2026-11-01", '"2026-11-01"'), "first_seen of send.a must be a date"),
        ("case = 1", "tables only"),
        ("deviation = 1", "tables only"),
        ("deviation = [1]", "tables only"),
        ("[[deviation", "is not TOML"),
    ],
)
def test_an_invalid_entry_is_refused(text: str, told: str) -> None:
    with pytest.raises(InvalidDeviationsError, match=told):
        parsed(text)


def test_an_unreadable_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidDeviationsError, match="cannot be read"):
        read(tmp_path / "missing.toml", known=set(), today=TODAY)


def test_a_target_without_a_file_has_no_deviations() -> None:
    assert bundled("no-such-target", known=set(), today=TODAY) == {}
