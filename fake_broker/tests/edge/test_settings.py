"""Settings of operators, as changes of a profile."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime

import pytest
from aiorocketmq_fake import Code, FakeBroker, Refusal
from aiorocketmq_fake.core.values.codes import MessageType
from aiorocketmq_fake.core.values.model import OutgoingMessage
from aiorocketmq_fake.core.values.profile import Profile
from aiorocketmq_fake.core.values.profiles import APACHE_5_5, DOCUMENTED
from aiorocketmq_fake.settings import COUNT, HOUR, SETTINGS, SWITCH, TIME, listed, with_settings

NAMES = [setting.server for setting in SETTINGS]
OTHER = {SWITCH: (False, True), COUNT: (7, 8), TIME: (2000, 4000), HOUR: (3, 5)}


def test_every_setting_is_a_field_of_the_profile_and_none_is_listed_twice() -> None:
    names = {field.name for field in fields(Profile)}
    assert {setting.field for setting in SETTINGS} <= names
    assert len({setting.field for setting in SETTINGS}) == len(set(NAMES)) == len(SETTINGS)


@pytest.mark.parametrize("setting", SETTINGS, ids=NAMES)
def test_both_names_mean_one_field_and_the_servers_has_its_unit(setting: object) -> None:
    assert setting in SETTINGS
    for value in OTHER[setting.kind]:
        scaled = value * setting.unit if setting.kind is TIME else value
        by_server = with_settings(APACHE_5_5, {setting.server: str(value).lower()})
        assert getattr(by_server, setting.field) == pytest.approx(scaled)
        assert by_server == with_settings(APACHE_5_5, {setting.field: scaled})
        assert replace(by_server, name="", **{setting.field: getattr(APACHE_5_5, setting.field)}) == replace(
            APACHE_5_5, name=""
        )
        (row,) = (row for row in listed(by_server) if row["server"] == setting.server)
        assert row["value"] == value


def test_nothing_set_is_the_profile_itself() -> None:
    assert with_settings(DOCUMENTED, {}) == DOCUMENTED


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"transactionCheckIntervall": 1}, "did you mean transactionCheckInterval"),
        ({"qqqq": 1}, "use one of autoCreateSubscriptionGroup"),
        ({"name": "x"}, "unknown setting 'name'"),
        ({"recallMessageEnable": "maybe"}, "recallMessageEnable must be true or false, got 'maybe'"),
        ({"recallMessageEnable": 1}, "must be true or false"),
        ({"maxMessageSize": -1}, "must be a whole number from 0"),
        ({"maxMessageSize": "4.5"}, "must be a whole number from 0"),
        ({"maxMessageSize": 2**31}, "must be a whole number from 0"),
        ({"check_interval": "nan"}, "must be a time from 0"),
        ({"check_interval": "inf"}, "must be a time from 0"),
        ({"check_interval": "-1"}, "must be a time from 0"),
        ({"deleteWhen": 24}, "an hour from 0 to 23"),
        ({"deleteWhen": 4, "cleaning_hour": 4}, "are the same setting"),
    ],
    ids=str,
)
def test_what_is_no_setting_is_refused_with_the_remedy(settings: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        with_settings(APACHE_5_5, settings)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=complaint):
        FakeBroker(settings=settings)  # type: ignore[arg-type]


def code_of(broker: FakeBroker, **message: object) -> Code | None:
    """How the core answers a send."""
    sent = OutgoingMessage(**{"topic": "t", "body": b"x", "message_id": "m", **message})  # type: ignore[arg-type]
    try:
        broker.brokers[0]._core.send((sent,), now=broker.clock.now())
    except Refusal as refused:
        return refused.code
    return None


@pytest.mark.parametrize(
    ("settings", "fits", "exceeds", "code"),
    [
        ({"maxMessageSize": 5}, {"body": b"12345"}, {"body": b"123456"}, Code.MESSAGE_BODY_TOO_LARGE),
        (
            {"userPropertyMaxNum": 1},
            {"properties": {"a": "1"}},
            {"properties": {"a": "1", "b": "2"}},
            Code.MESSAGE_PROPERTIES_TOO_LARGE,
        ),
        (
            {"maxUserPropertySize": 4},
            {"properties": {"a": "é"}, "keys": ("k",)},
            {"properties": {"a": "é"}, "keys": ("kk",)},
            Code.MESSAGE_PROPERTIES_TOO_LARGE,
        ),
        (
            {"maxMessageGroupSize": 3, "enableTopicMessageTypeCheck": "false"},
            {"message_group": "é"},
            {"message_group": "éé"},
            Code.ILLEGAL_MESSAGE_GROUP,
        ),
        (
            {"maxDelayTimeMills": 5000, "types_checked": False},
            {"delivery_timestamp": 1_004.9},
            {"delivery_timestamp": 1_005.1},
            Code.ILLEGAL_DELIVERY_TIME,
        ),
        (
            {"maxTransactionRecoverySecond": 8, "types_checked": False},
            {"message_type": MessageType.TRANSACTION, "recovery_duration": 8.0},
            {"message_type": MessageType.TRANSACTION, "recovery_duration": 9.0},
            Code.BAD_REQUEST,
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
async def test_limits_of_messages_are_those_that_were_set(
    settings: dict[str, object], fits: dict[str, object], exceeds: dict[str, object], code: Code
) -> None:
    start = datetime.fromtimestamp(1000, UTC)
    async with FakeBroker(clock="manual", start=start, settings=settings) as broker:  # type: ignore[arg-type]
        await broker.create_topic("t")
        assert code_of(broker, **fits) is None
        assert code_of(broker, **exceeds) is code
