"""Users, signatures and rights (1.3, 14)."""

import hmac
import random
from dataclasses import replace

import pytest
from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.commands.access import FrameSignature, Need, Right, Signature, User
from aiorocketmq_fake.core.values.codes import Code, Refusal
from aiorocketmq_fake.core.values.events import Refused, UserChanged
from aiorocketmq_fake.core.values.profile import Profile
from aiorocketmq_fake.core.values.profiles import DOCUMENTED

NOW = 1_787_134_272.0  # 2026-08-19T10:11:12Z
DATE = "20260819T101112Z"


def signature(secret: str = "secret", *, key: str = "app", date: str = DATE, token: str = "") -> Signature:
    shown = hmac.digest(secret.encode(), date.encode(), "sha1").hex().upper()
    text = f"MQv2-HMAC-SHA1 Credential={key}, SignedHeaders=x-mq-date-time, Signature={shown}"
    return Signature(text, date, token)


def broker_with(*users: User, profile: Profile = DOCUMENTED) -> Broker:
    broker = Broker(profile, now=NOW, rng=random.Random(0))
    for user in users:
        broker.put_user(user, now=NOW)
    return broker


def may(broker: Broker, signed: Signature | FrameSignature, *needs: Need, now: float = NOW) -> bool:
    try:
        broker.check_access("SendMessage", "c", signed, needs, now=now)
    except Refusal as refused:
        return refused.code is not Code.UNAUTHORIZED
    return True


def test_the_published_example_of_a_signature_is_accepted() -> None:
    text = (
        "MQv2-HMAC-SHA1 Credential=app, SignedHeaders=x-mq-date-time, "
        "Signature=53280DCC318D57FD835A9E2B511D4D030B0703B9"
    )
    assert may(broker_with(User("app", "secret")), Signature(text, DATE))


@pytest.mark.parametrize(
    "text",
    [
        "Any Credential=app/region/service, SignedHeaders=, Signature={}",
        "X Credential=app,Signature={}",
    ],
)
def test_what_servers_do_not_look_at_does_not_matter(text: str) -> None:
    shown = hmac.digest(b"secret", DATE.encode(), "sha1").hex()
    assert may(broker_with(User("app", "secret")), Signature(text.format(shown), DATE))


@pytest.mark.parametrize(
    "signed",
    [
        Signature(),
        Signature(" ", DATE),
        Signature("junk", DATE),
        Signature("MQv2-HMAC-SHA1 Credential=app, Signature=", DATE),
        Signature("MQv2-HMAC-SHA1 Credential=app, Signature=zz", DATE),
        Signature("MQv2-HMAC-SHA1 Credential=, Signature=00", DATE),
        signature("wrong"),
        signature(key="nobody"),
        replace(signature(), date_time=""),
        replace(signature(), date_time="20260819T101113Z"),
        signature(date=""),
    ],
)
def test_a_call_that_is_not_signed_by_a_user_is_refused(signed: Signature) -> None:
    assert not may(broker_with(User("app", "secret")), signed)


def test_a_disabled_user_is_refused() -> None:
    assert not may(broker_with(User("app", "secret", enabled=False)), signature())


def test_the_signed_date_may_be_any_text_where_no_window_is_set() -> None:
    broker = broker_with(User("app", "secret"))
    assert may(broker, signature(date="19990101T000000Z"))
    assert may(broker, signature(date="yesterday"))


def test_a_window_refuses_distant_and_invalid_dates() -> None:
    broker = broker_with(User("app", "secret"), profile=replace(DOCUMENTED, signature_window=900.0))
    for date in ("20260819T095612Z", "20260819T102612Z"):
        assert may(broker, signature(date=date))
    for date in ("20260819T095611Z", "20260819T102613Z", "yesterday"):
        assert not may(broker, signature(date=date))


def test_a_session_token_counts_by_profile() -> None:
    user = User("app", "secret", session_token="token")
    assert may(broker_with(user), signature(token="token"))
    assert not may(broker_with(user), signature(token="old"))
    assert not may(broker_with(user), signature())
    assert may(broker_with(user, profile=replace(DOCUMENTED, session_tokens_count=False)), signature())
    assert may(broker_with(User("app", "secret")), signature(token="one too many"))


FRAME = FrameSignature("ak", "9znOAa8Qur4OXDW27+zZliEMJI0=", b"akg0T")
"""As Java's classes sign a request with the fields consumerGroup g, queueId 0 and topic T (remoting 8)."""


def denial(broker: Broker, signed: Signature | FrameSignature, *needs: Need) -> str:
    with pytest.raises(Refusal) as refused:
        broker.check_access("Remoting.PULL_MESSAGE", "c", signed, needs, now=NOW)
    assert refused.value.code is Code.UNAUTHORIZED
    return refused.value.message


def test_the_signature_of_a_frame_is_that_of_javas_clients() -> None:
    broker = broker_with(User("ak", "sk"))
    broker.check_access("Remoting.PULL_MESSAGE", "c", FRAME, (), now=NOW)
    assert denial(broker, replace(FRAME, content=b"akg1T")) == "check signature failed."
    assert denial(broker, replace(FRAME, signature="")) == "check signature failed."


def test_denials_have_the_texts_of_servers() -> None:
    broker = broker_with(User("ak", "sk", publish=("t",)), User("off", "sk", enabled=False))
    assert denial(broker, FrameSignature()) == "username cannot be null."
    assert denial(broker, replace(FRAME, access_key="x")) == "User:x is not found."
    assert denial(broker, replace(FRAME, access_key="off")) == "User:off is disabled."
    signed = replace(FRAME, source="10.0.0.7")
    text = "User:ak has no permission to access {} from 10.0.0.7, no matched policies."
    assert denial(broker, signed, Need(Right.PUBLISH, "other")) == text.format("Topic:other")
    assert denial(broker, signed, Need(Right.ADMINISTER_GROUP, "g")) == text.format("Group:g")
    assert denial(broker, signed, Need(Right.ADMINISTER, "c")) == text.format("Cluster:c")


def test_a_session_token_counts_for_frames_as_well() -> None:
    user = User("ak", "sk", session_token="token")
    assert may(broker_with(user), replace(FRAME, session_token="token"))
    assert not may(broker_with(user), FRAME)


def test_only_who_may_everything_manages() -> None:
    managing = [
        Need(right, "t") for right in (Right.ADMINISTER_TOPIC, Right.ADMINISTER_GROUP, Right.ADMINISTER)
    ]
    assert may(broker_with(User("ak", "sk")), FRAME, *managing)
    for need in managing:
        assert not may(broker_with(User("ak", "sk", groups=("a*",))), FRAME, need)


def test_a_check_costs_nothing_of_a_rate() -> None:
    broker = broker_with(User("app", "secret"))
    broker.limit_rate("SendMessage", 1, now=NOW)
    for _ in range(3):
        assert may(broker, signature(), Need(Right.PUBLISH, "t"))
    assert not [event for event in broker.take_events() if isinstance(event, Refused)]


@pytest.mark.parametrize(
    ("need", "granted"),
    [
        (Need(Right.PUBLISH, "orders"), True),
        (Need(Right.PUBLISH, "orders2"), False),
        (Need(Right.PUBLISH, "bills"), False),
        (Need(Right.SUBSCRIBE, "orders"), False),
        (Need(Right.SUBSCRIBE, "bills"), True),
        (Need(Right.SUBSCRIBE, "bills-eu"), True),
        (Need(Right.SUBSCRIBE, "bill"), False),
        (Need(Right.SUBSCRIBE, "billing"), False),
        (Need(Right.SUBSCRIBE, "my-bills"), False),
        (Need(Right.ROUTE, "orders"), True),
        (Need(Right.ROUTE, "bills-eu"), True),
        (Need(Right.ROUTE, "other"), False),
        (Need(Right.GROUP, "anything"), True),
        (Need(Right.GROUP, " "), False),
    ],
)
def test_a_right_is_a_name_a_prefix_or_all(need: Need, granted: bool) -> None:
    user = User("app", "secret", publish=("orders",), subscribe=("bills*",), groups=("*",))
    assert may(broker_with(user), signature(), need) is granted


def test_every_right_that_a_call_needs_must_be_there() -> None:
    broker = broker_with(User("app", "secret", subscribe=("t",), groups=()))
    assert not may(broker, signature(), Need(Right.SUBSCRIBE, "t"), Need(Right.GROUP, "g"))


def test_administrators_need_no_single_rights() -> None:
    assert may(broker_with(User("app", "secret")), signature(), Need(Right.PUBLISH, ""))


def test_calls_stay_checked_without_users_left() -> None:
    broker = broker_with(User("app", "secret"))
    broker.remove_user("app", now=NOW)
    assert broker.access.is_checked
    assert not may(broker, signature())
    with pytest.raises(Refusal, match="app"):
        broker.remove_user("app", now=NOW)


def test_a_user_replaces_the_one_of_its_access_key() -> None:
    broker = broker_with(User("app", "secret"), User("app", "new"), User("a", "s"))
    assert not may(broker, signature())
    assert may(broker, signature("new"))
    assert [user.access_key for user in broker.access.users()] == ["a", "app"]


def test_events_of_users_have_no_secrets() -> None:
    broker = broker_with(User("app", "s3cret"))
    may(broker, signature("wrong"))
    changed, refused = broker.take_events()
    assert changed == UserChanged(NOW, "app", deleted=False)
    assert isinstance(refused, Refused)
    assert refused.code is Code.UNAUTHORIZED
    assert "s3cret" not in f"{changed}{refused}{broker.access.users()}"


@pytest.mark.parametrize(
    "make",
    [
        lambda: User("", "secret"),
        lambda: User("app", ""),
        lambda: User("a/b", "secret"),
        lambda: User("app", "secret", publish=("a*b",)),
        lambda: User("app", "secret", groups=("",)),
    ],
)
def test_a_user_that_cannot_be_is_not_made(make: object) -> None:
    with pytest.raises(ValueError, match=r"a user needs|a pattern must be"):
        make()  # type: ignore[operator]
