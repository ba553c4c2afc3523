"""The picture on the documentation's first page is the one that the demo draws."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from tools import demo_picture

PAGE = (
    "<html><style>.stored { fill: blue }</style><figure>"
    '<svg viewBox="0 0 960 220" role="img"><title>One message</title><circle class="stored"/></svg></figure></html>'
)


def test_picture_is_the_first_of_the_page_with_its_style() -> None:
    picture = ET.fromstring(demo_picture.picture(PAGE))
    assert picture.get("viewBox") == "0 0 960 220"
    assert [child.tag.rpartition("}")[2] for child in picture] == ["style", "rect", "title", "circle"]


def test_a_page_without_picture_is_refused() -> None:
    with pytest.raises(ValueError, match="no picture"):
        demo_picture.picture("<html></html>")


def test_first_page_shows_the_whole_history() -> None:
    text = demo_picture.PICTURE.read_text(encoding="utf-8")
    words = [each.text for each in ET.fromstring(text).iter() if each.tag.endswith("text")]
    assert {"stored", "delivered", "dead letter"} <= set(words)
    assert demo_picture.PICTURE.name in demo_picture.PICTURE.with_name("index.md").read_text(encoding="utf-8")
