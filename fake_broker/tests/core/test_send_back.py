"""Send-back: copies in the retry topic after the steps of the delay levels, then the dead-letter topic."""

from __future__ import annotations

from typing import Any

import pytest
from aiorocketmq_fake.core.values.classic_model import SendBack
from aiorocketmq_fake.core.values.codes import Code, Refusal
from aiorocketmq_fake.core.values.events import DeadLettered, SentBack


def send_back(desk: Any, position: int, **fields: Any) -> None:
    desk.broker.send_back(SendBack("shared", position, **fields), now=desk.now, client_id="c1")


def retries(desk: Any) -> list[Any]:
    return list(desk.broker.messages("%RETRY%shared"))


def test_each_failure_waits_longer_and_the_last_one_is_a_dead_letter(desk: Any) -> None:
    desk.send("m")
    (message,) = desk.broker.messages("t")
    for attempt, seconds in enumerate((10.0, 30.0, 60.0), start=1):
        send_back(desk, message.position, max_reconsume_times=3)
        desk.broker.advance(desk.now + seconds - 0.001)
        assert len(retries(desk)) == attempt - 1
        desk.now += seconds
        desk.broker.advance(desk.now)
        message = retries(desk)[-1]
        assert message.attempts_before == attempt
    send_back(desk, message.position, max_reconsume_times=3)
    (dead,) = desk.broker.dead_letters("shared")
    assert dead.content.message_id == "m"
    events = [type(event) for event in desk.broker.take_events()]
    assert (events.count(SentBack), events.count(DeadLettered)) == (3, 1)


def test_every_copy_records_its_origin(desk: Any) -> None:
    desk.send("m", tag="a")
    (message,) = desk.broker.messages("t")
    for origin in ("first", "second"):
        send_back(desk, message.position, delay_level=1, origin_id=origin)
        desk.now += 1.0
        desk.broker.advance(desk.now)
        message = retries(desk)[-1]
    content = message.content
    assert content.classic.properties == {
        "RETRY_TOPIC": "t",
        "ORIGIN_MESSAGE_ID": "first",
        "REAL_TOPIC": "%RETRY%shared",
        "REAL_QID": "0",
        "DELAY": "1",
        "WAIT": "false",
    }
    assert (content.message_id, content.tag, message.topic) == ("m", "a", "%RETRY%shared")


@pytest.mark.parametrize("fields", [{"delay_level": -1}, {"max_reconsume_times": 0}])
def test_no_more_attempts_is_a_dead_letter_at_once(desk: Any, fields: dict[str, int]) -> None:
    desk.send("m")
    send_back(desk, desk.broker.messages("t")[0].position, **fields)
    assert [dead.content.message_id for dead in desk.broker.dead_letters("shared")] == ["m"]


def test_the_groups_own_limit_counts_where_the_request_has_none(desk: Any) -> None:
    desk.add_group("shared", max_attempts=1)
    desk.send("m")
    send_back(desk, desk.broker.messages("t")[0].position, max_reconsume_times=-1)
    assert len(desk.broker.dead_letters("shared")) == 1


def test_a_place_without_message_is_refused(desk: Any) -> None:
    desk.send("m")
    with pytest.raises(Refusal) as refused:
        send_back(desk, 12345)
    assert refused.value.code is Code.MESSAGE_NOT_FOUND
    assert not desk.broker.has_group("shared")


def test_copies_that_wait_survive_a_restart(desk: Any) -> None:
    desk.send("m")
    send_back(desk, desk.broker.messages("t")[0].position)
    desk.broker.restart(now=desk.now)
    desk.broker.advance(desk.now + 10.0)
    assert len(retries(desk)) == 1


@pytest.mark.parametrize(
    ("level", "seconds"), [(1, 1.0), (2, 5.0), (17, 3600.0), (18, 7200.0), (19, 7200.0), (99, 7200.0)]
)
def test_levels_above_the_last_one_wait_as_long(desk: Any, level: int, seconds: float) -> None:
    desk.send("m")
    send_back(desk, desk.broker.messages("t")[0].position, delay_level=level)
    desk.broker.advance(desk.now + seconds - 0.001)
    assert retries(desk) == []
    desk.broker.advance(desk.now + seconds)
    assert len(retries(desk)) == 1
