"""The picture of two groups, one that shares messages and one that shares queues, tells what its recording tells."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

from tools import grain_picture
from tools.grain_picture import BY_MESSAGE, BY_QUEUE, TOPIC, Bar, Row

SECOND = 1_000_000


def rows(*told: tuple[float, str, str, str, dict[str, Any]]) -> list[Row]:
    empty = {"queues": None, "cfg": None, "topic": TOPIC, "queue": 0, "message_id": None}
    return [
        {**empty, "seq": seq, "t_wall_us": round(at * SECOND), "kind": kind, "group": group, "client_id": who}
        | more
        for seq, (at, kind, group, who, more) in enumerate(told)
    ]


def assigned(*queues: int, grain: str = "queue", topic: str = TOPIC) -> dict[str, Any]:
    return {
        "queues": [{"broker": "b", "queue": queue} for queue in queues],
        "cfg": {"grain": grain},
        "topic": topic,
    }


def handled(message: str, queue: int = 0) -> dict[str, Any]:
    return {"message_id": message, "queue": queue}


RECORDED = rows(
    (0, "client.start", BY_QUEUE, "x@1", {}),
    (0, "assign", BY_QUEUE, "x@1", assigned(0, 1)),
    (0, "assign", BY_QUEUE, "x@1", assigned(2, topic="%RETRY%by-queue")),
    (1, "send", "", "p", {}),
    (2, "handle.start", BY_QUEUE, "x@1", handled("M", 1)),
    (3, "handle.end", BY_QUEUE, "x@1", handled("M", 1)),
    (4, "client.start", BY_QUEUE, "y@1", {}),
    (5, "assign", BY_QUEUE, "y@1", assigned(1)),
    (6, "assign", BY_QUEUE, "x@1", assigned(0)),
    (6, "handle.start", BY_QUEUE, "y@1", handled("M", 1)),
    (7, "handle.end", BY_QUEUE, "y@1", handled("M", 1)),
    (8, "client.stop", BY_QUEUE, "y@1", {}),
    (2, "client.start", BY_MESSAGE, "z@1", {}),
    (2, "assign", BY_MESSAGE, "z@1", assigned(0, grain="message")),
    (9, "send", "", "p", {}),
)


def test_work_ownership_and_moments_are_those_of_the_recording() -> None:
    told = grain_picture.stories(RECORDED)
    by_queue, by_message = told[BY_QUEUE], told[BY_MESSAGE]
    assert by_queue.work == [Bar("a", 1, 1, 2), Bar("b", 1, 5, 6, is_again=True)]
    assert by_queue.owned == [Bar("a", 1, 0, 5), Bar("a", 0, 0, 8), Bar("b", 1, 4, 8)]
    assert by_queue.moments == [(3, "b joins"), (7, "b leaves")]
    assert (by_message.work, by_message.owned, by_message.moments) == ([], [], [(1, "a joins")])


def test_every_bar_is_drawn_in_its_members_colour_and_what_came_again_with_a_frame() -> None:
    picture = ET.fromstring(grain_picture.draw(grain_picture.stories(RECORDED)))
    bars = [
        each for each in picture.iter() if each.tag.endswith("rect") and each.get("fill-opacity") == "1.0"
    ]
    assert [(each.get("fill"), each.get("stroke")) for each in bars] == [
        (grain_picture.COLOURS[0], None),
        (grain_picture.COLOURS[1], "#000"),
    ]


def test_the_page_shows_a_picture_of_both() -> None:
    text = grain_picture.PICTURE.read_text(encoding="utf-8")
    words = {each.text for each in ET.fromstring(text).iter() if each.tag.endswith("text")}
    assert {*grain_picture.PANELS.values(), "c joins", "a leaves"} <= words
    page = grain_picture.PICTURE.with_suffix(".md").read_text(encoding="utf-8")
    assert grain_picture.PICTURE.name in page
