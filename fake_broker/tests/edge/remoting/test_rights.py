"""Users and their rights on the remoting port (remoting-protocol.md 8, live-broker-remoting.md 11)."""

from __future__ import annotations

import asyncio
import hmac
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from aiorocketmq import Admin, Credentials, Message, Producer, PullConsumer, PushConsumer
from aiorocketmq.errors import PermissionDeniedError
from aiorocketmq.message import ReceivedMessage
from aiorocketmq_fake import FakeBroker, User
from aiorocketmq_fake.core.values.events import Refused, SentBack
from aiorocketmq_fake.edge.remoting.frames import Frame, encode
from aiorocketmq_fake.edge.remoting.rights import NEEDS
from aiorocketmq_fake.edge.remoting_codes import RequestCode

from fake_broker.tests.edge.remoting.conftest import Wire, dial

PATIENCE = 30.0
NAMES = frozenset({105, 106, 206, 216})
"""Requests to a name server."""
APP = User("app", "secret", publish=("t",), subscribe=("t",), groups=("g",))
SHORT = {"a": "pg", "b": "t", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0, "i": ""}
PULL = {
    "consumerGroup": "g", "topic": "t", "queueId": 0, "queueOffset": 0, "maxMsgNums": 1, "sysFlag": 4,
    "commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*",
}  # fmt: skip
PLACE = {"consumerGroup": "g", "topic": "t", "queueId": 0}


class Login:
    """Signs what goes over a wire."""

    def __init__(self, wire: Wire, access_key: str = "app", secret: str = "secret") -> None:
        self._wire = wire
        self._access_key = access_key
        self._secret = secret

    def signed(self, body: bytes, fields: dict[str, Any]) -> dict[str, str]:
        texts = {name: str(value) for name, value in fields.items()} | {"AccessKey": self._access_key}
        content = "".join(texts[name] for name in sorted(texts)).encode() + body
        signature = hmac.digest(self._secret.encode(), content, "sha1")
        return texts | {"Signature": b64encode(signature).decode()}

    async def ask(self, code: int, body: object = b"", **fields: Any) -> Frame:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self._wire.ask(code, content, **self.signed(content, fields))


@pytest.fixture
async def guarded(broker: FakeBroker) -> FakeBroker:
    """A broker with a user `app` for topic `t` and group `g`, and `admin` with all rights."""
    for user in (APP, User("admin", "secret")):
        await broker.put_user(user)
    return broker


@pytest.fixture
def app(guarded: FakeBroker, wire: Wire) -> Login:
    return Login(wire)


@pytest.fixture
def admin(guarded: FakeBroker, wire: Wire) -> Login:
    return Login(wire, "admin")


async def test_no_unsigned_request_is_acted_on_but_by_the_name_server(guarded: Any, wire: Wire) -> None:
    for code in set(RequestCode) - {39, 40}:
        answer = await wire.ask(code, topic="t")
        if code in NAMES:
            assert answer.code != 16, code
        else:
            assert code in NEEDS
            assert (answer.code, answer.remark) == (16, "username cannot be null."), code
    assert (await wire.ask(9999)).code == 16
    unheard = wire.send_one_way(15, **PLACE, commitOffset=1)
    assert (await wire.ask(105, topic="t")).code == 0
    assert not unheard.done()
    assert guarded.progress("g") == ()


@pytest.mark.parametrize(
    ("access_key", "secret", "remark"),
    [
        ("app", "wrong", "check signature failed."),
        ("nobody", "secret", "User:nobody is not found."),
    ],
)
async def test_a_wrong_signature_is_refused(
    guarded: Any, wire: Wire, access_key: str, secret: str, remark: str
) -> None:
    answer = await Login(wire, access_key, secret).ask(310, b"x", **SHORT)
    assert (answer.code, answer.remark) == (16, remark)
    assert guarded.messages("t") == ()


async def test_every_field_and_the_body_are_signed(app: Login, wire: Wire) -> None:
    fields = app.signed(b"x", SHORT)
    assert (await wire.ask(310, b"y", **fields)).code == 16
    assert (await wire.ask(310, b"x", **{**fields, "e": "1"})).code == 16
    assert (await wire.ask(310, b"x", **fields, more="1")).code == 16
    assert (await wire.ask(310, b"x", **fields)).code == 0


async def test_a_binary_header_is_signed_alike(app: Login, wire: Wire) -> None:
    answer = wire.send_one_way(9999)  # its number waits for an answer, and this gets none
    fields = app.signed(b"", PLACE)
    wire.writer.write(encode(Frame(14, fields, opaque=1), binary=True))
    assert (await asyncio.wait_for(answer, 10)).code == 22


def beat(group: str, *topics: str) -> dict[str, object]:
    subscriptions = [{"topic": topic, "subString": "*", "subVersion": 1} for topic in topics]
    return {"clientID": "c", "consumerDataSet": [{"groupName": group, "subscriptionDataSet": subscriptions}]}


def lock(group: str, *topics: str) -> dict[str, object]:
    queues = [{"topic": topic, "brokerName": "broker-a", "queueId": 0} for topic in topics]
    return {"consumerGroup": group, "clientId": "c", "mqSet": queues}


USES: list[tuple[str, int, object, dict[str, object], dict[str, object]]] = [
    ("send", 310, b"x", SHORT, {"b": "wide"}),
    ("send, long names", 10, b"x", {"topic": "t", "defaultTopic": "", "defaultTopicQueueNums": 4, "queueId": 0,
        "sysFlag": 0, "bornTimestamp": 1, "flag": 0}, {"topic": "wide"}),
    ("pull, topic", 11, b"", PULL, {"topic": "wide"}),
    ("pull, group", 361, b"", PULL, {"consumerGroup": "other"}),
    ("committed, topic", 14, b"", PLACE, {"topic": "wide"}),
    ("committed, group", 14, b"", PLACE, {"consumerGroup": "other"}),
    ("commit, topic", 15, b"", {**PLACE, "commitOffset": 0}, {"topic": "wide"}),
    ("commit, group", 15, b"", {**PLACE, "commitOffset": 0}, {"consumerGroup": "other"}),
    ("commit, retries", 15, b"", {**PLACE, "commitOffset": 0, "topic": "%RETRY%g"}, {"topic": "%RETRY%other"}),
    ("ends", 30, b"", {"topic": "t", "queueId": 0}, {"topic": "wide"}),
    ("begins", 31, b"", {"topic": "t", "queueId": 0}, {"topic": "wide"}),
    ("ages", 32, b"", {"topic": "t", "queueId": 0}, {"topic": "wide"}),
    ("at a time", 29, b"", {"topic": "t", "queueId": 0, "timestamp": 1}, {"topic": "wide"}),
    ("ends of retries", 30, b"", {"topic": "%RETRY%g", "queueId": 0}, {"topic": "%RETRY%other"}),
    ("beat, group", 34, beat("g", "t", "%RETRY%g"), {}, beat("other", "t")),
    ("beat, topic", 34, beat("g", "t"), {}, beat("g", "t", "wide")),
    ("leave", 35, b"", {"clientID": "c", "consumerGroup": "g"}, {"consumerGroup": "other"}),
    ("lock, group", 41, lock("g", "t", "%RETRY%g"), {}, lock("other", "t")),
    ("lock, topic", 41, lock("g", "t"), {}, lock("g", "t", "wide")),
    ("unlock", 42, lock("g", "t"), {}, lock("other", "t")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "body", "fields", "other"), [use[1:] for use in USES], ids=[use[0] for use in USES]
)
async def test_a_user_may_what_it_has_the_right_to_and_nothing_else(
    app: Login, guarded: FakeBroker, code: int, body: Any, fields: Any, other: Any
) -> None:
    await guarded.create_group("g")
    # Groups of code 1: without members, which has its own answer.
    assert (await app.ask(code, body, **fields)).code != 16
    denied = (code, body, {**fields, **other}) if body in (b"", b"x") else (code, other, fields)
    answer = await app.ask(denied[0], denied[1], **denied[2])
    assert answer.code == 16
    assert answer.remark is not None
    assert answer.remark.startswith("User:app has no permission to access ")
    assert answer.remark.endswith(" from 127.0.0.1, no matched policies.")
    assert guarded.messages("wide") == ()


async def test_a_member_reads_sends_back_and_inspects_its_group(app: Login) -> None:
    assert (await app.ask(34, beat("g", "t"))).code == 0
    sent = await app.ask(310, b"x", **SHORT)
    assert b"x" in (await app.ask(11, **PULL)).body
    assert json.loads((await app.ask(38, consumerGroup="g")).body) == {"consumerIdList": ["c"]}
    position = int(sent.fields["msgId"][-16:], 16)
    assert (await app.ask(36, group="g", offset=position, delayLevel=0)).code == 0
    assert (await app.ask(36, group="other", offset=position, delayLevel=0)).code == 16
    assert (await app.ask(38, consumerGroup="other")).code == 16
    # What a client does by itself when its send-back failed.
    assert (await app.ask(310, b"again", **{**SHORT, "b": "%RETRY%g"})).code == 0
    assert (await app.ask(310, b"again", **{**SHORT, "b": "%RETRY%other"})).code == 16


async def test_half_messages_are_ended_by_who_may_send(app: Login) -> None:
    half = {**SHORT, "i": "TRAN_MSG\x01true\x02PGROUP\x01pg\x02UNIQ_KEY\x01U1\x02"}
    place = (await app.ask(310, b"x", **half)).fields["queueOffset"]
    end = {"tranStateTableOffset": place, "commitOrRollback": 8}
    assert (await app.ask(37, **end, topic="wide")).code == 16
    assert (await app.ask(37, **end, topic="t")).code == 0


MANAGEMENT: list[tuple[int, object, dict[str, object]]] = [
    (17, b"", {"topic": "new", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6}),
    (21, b"", {}),
    (200, {"groupName": "new"}, {}),
    (201, b"", {}),
    (202, b"", {"topic": "t"}),
    (203, b"", {"consumerGroup": "g"}),
    (204, b"", {"producerGroup": "pg"}),
    (207, b"", {"groupName": "g"}),
    (208, b"", {"consumerGroup": "g"}),
    (215, b"", {"topic": "t"}),
    (222, b"", {"topic": "t", "group": "g", "timestamp": -1}),
    (307, b"", {"consumerGroup": "g", "clientId": "c"}),
    (351, b"", {"topic": "t"}),
]


@pytest.mark.parametrize(("code", "body", "fields"), MANAGEMENT)
async def test_only_administrators_manage(
    app: Login, admin: Login, guarded: FakeBroker, code: int, body: Any, fields: Any
) -> None:
    await guarded.create_group("g")
    answer = await app.ask(code, body, **fields)
    assert answer.code == 16
    assert "t" in {topic.name for topic in guarded.topics()}
    assert "new" not in {topic.name for topic in guarded.topics()}
    assert "new" not in {group.name for group in guarded.groups()}
    assert (await admin.ask(code, body, **fields)).code != 16


async def test_a_server_as_found_checks_more_and_less() -> None:
    """As a 5.5.0 with ACL 2.0 answered a user with Pub and Sub on `t` and Sub on `g`."""
    async with FakeBroker(profile="apache-5.5", remoting_port=0, users=[APP]) as broker, dial(broker) as wire:
        await broker.create_topic("t", queues=1)
        await broker.create_topic("other", queues=1)
        await broker.create_group("g")
        app = Login(wire)
        assert (await app.ask(310, b"x", **SHORT)).code == 0
        for code in (29, 30, 31, 32):
            for topic, resource in (("t", "Topic:t"), ("%RETRY%g", "Group:g")):
                answer = await app.ask(code, topic=topic, queueId=0, timestamp=1)
                assert (answer.code, f"access {resource} from" in str(answer.remark)) == (16, True)
        assert (await app.ask(11, **{**PULL, "topic": "other"})).code == 16
        assert (await app.ask(361, **{**PULL, "topic": "other"})).code == 19
        assert (await app.ask(361, **{**PULL, "consumerGroup": "other"})).code == 0
        assert (await app.ask(14, **{**PLACE, "topic": "%RETRY%other"})).code == 22
        assert (await app.ask(34, beat("g", "t", "%RETRY%other"))).code == 0
        assert (await app.ask(310, b"x", **{**SHORT, "b": "%RETRY%other"})).code == 16
        for code, body in ((21, b""), (201, b""), (200, {"groupName": "new"})):
            assert (await app.ask(code, body)).code == 0
        assert (await app.ask(9999)).code == 3


async def test_a_message_may_be_viewed_by_its_position_alone(app: Login) -> None:
    sent = await app.ask(310, b"x", **SHORT)
    position = int(sent.fields["msgId"][-16:], 16)
    assert (await app.ask(33, offset=position)).code == 0
    assert (await app.ask(33, offset=position, topic="other")).code == 16


async def test_a_denial_is_an_event(app: Login, guarded: FakeBroker) -> None:
    async with guarded.events.subscribe() as events:
        await app.ask(215, topic="t")
        (refused,) = [event for event in events.take() if isinstance(event, Refused)]
    assert refused.command == "Remoting.DELETE_TOPIC_IN_BROKER"


async def test_a_running_info_request_hides_its_caller(admin: Login, guarded: Any, connect: Any) -> None:
    member = await connect()
    assert (await Login(member, "admin").ask(34, beat("g", "t"))).code == 0
    await member.next_push()
    asking = asyncio.ensure_future(admin.ask(307, consumerGroup="g", clientId="c", jstackEnable="true"))
    pushed = await member.next_push()
    assert pushed.fields == {"consumerGroup": "g", "clientId": "c", "jstackEnable": "true"}
    member.writer.write(encode(Frame(0, {}, b"{}", pushed.opaque, flag=1)))
    assert (await asking).code == 0


# The project's own clients


async def test_our_clients_work_with_just_the_rights_they_need(
    guarded: FakeBroker,
) -> None:
    namesrv, credentials = f"namesrv://{guarded.remoting_endpoint}", Credentials("app", "secret")
    arrived: asyncio.Queue[tuple[bytes, int]] = asyncio.Queue()

    async def handle(message: ReceivedMessage) -> None:
        arrived.put_nowait((message.body, message.attempt))
        if message.attempt == 1:
            raise RuntimeError("once more")

    async with Producer(namesrv, credentials=credentials) as producer:
        await producer.send(Message("t", b"1"))
        async with PullConsumer(namesrv, group="g", topics=["t"], credentials=credentials) as pull:
            async with asyncio.timeout(PATIENCE):
                batch = await anext(aiter(pull))
            assert [message.body for message in batch] == [b"1"]
            await pull.commit(batch)
        push = PushConsumer(namesrv, group="g", subscriptions=["t"], handler=handle, credentials=credentials)
        async with push, guarded.events.subscribe() as events, asyncio.timeout(PATIENCE):
            await producer.send(Message("t", b"2"))
            assert await arrived.get() == (b"2", 1)
            async for event in events:
                if isinstance(event, SentBack):
                    break
            guarded.clock.jump(seconds=10)
            assert await arrived.get() == (b"2", 2)
        with pytest.raises(PermissionDeniedError, match="no permission to access Topic:wide"):
            await producer.send(Message("wide", b"3"))


async def test_only_an_administrators_admin_may_create(guarded: FakeBroker) -> None:
    namesrv = f"namesrv://{guarded.remoting_endpoint}"
    async with Admin(namesrv, credentials=Credentials("admin", "secret")) as admin:
        await admin.create_topic("new", queues=1)
    async with Admin(namesrv, credentials=Credentials("app", "secret")) as admin:
        with pytest.raises(PermissionDeniedError):
            await admin.delete_topic("new")
    async with Admin(namesrv) as admin:
        with pytest.raises(PermissionDeniedError, match="username cannot be null"):
            await admin.delete_topic("new")


async def test_users_are_kept_on_disk_and_checks_are_not(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with FakeBroker(remoting_port=0, data=data, users=[APP]) as broker, dial(broker) as wire:
        await broker.create_topic("t", queues=1)
        assert (await Login(wire).ask(310, b"kept", **SHORT)).code == 0
    async with FakeBroker(remoting_port=0, data=data) as broker, dial(broker) as wire:
        assert (await wire.ask(310, b"denied", **SHORT)).code == 16
        assert (await Login(wire).ask(310, b"more", **SHORT)).code == 0
        assert [message.body for message in broker.messages("t")] == [b"kept", b"more"]


async def test_a_session_token_goes_with_each_call_of_both_protocols(broker: FakeBroker) -> None:
    await broker.put_user(User("app", "secret", session_token="token"))
    for endpoint in (broker.endpoint, f"namesrv://{broker.remoting_endpoint}"):
        credentials = Credentials("app", "secret", session_token="token")
        async with Producer(endpoint, topics=["t"], credentials=credentials) as producer:
            await producer.send(Message("t", b"body"))
        for token in ("other", None):
            stranger = Credentials("app", "secret", session_token=token)
            with pytest.raises(PermissionDeniedError, match="session token is not that of app"):
                async with Producer(endpoint, topics=["t"], credentials=stranger) as producer:
                    await producer.send(Message("t", b"body"))
    assert len(broker.messages("t")) == 2
