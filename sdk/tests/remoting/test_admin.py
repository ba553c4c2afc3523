"""Admin against scripted name servers and brokers: what it asks, in which order, and what it makes of answers."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Awaitable, Callable
from typing import Protocol

import pytest
from aiorocketmq._core.endpoint import Address
from aiorocketmq._core.remoting.frame import RESPONSE, Frame
from aiorocketmq._remoting.signing import sign
from aiorocketmq.admin import Admin, ExponentialBackoff, QueueRange, TopicRoute, TopicType
from aiorocketmq.config import Credentials
from aiorocketmq.errors import (
    ClosedError,
    NotSupportedError,
    RefusedError,
    RocketMQError,
    TopicNotFoundError,
    UnreachableError,
)


class Server(Protocol):
    address: Address
    seen: list[Frame]
    connections: int


Serve = Callable[[Callable[[Frame], "Frame | bytes | None"]], Awaitable[Server]]


def answer(frame: Frame, code: int = 0, body: object = None, remark: str | None = None) -> Frame:
    text = b"" if body is None else json.dumps(body).encode()
    return Frame(code=code, opaque=frame.opaque, flag=RESPONSE, body=text, remark=remark)


class Cluster:
    """A name server with the masters a test wants; `misses` first route questions go unanswered by a route."""

    def __init__(self, *masters: Server, misses: int = 0) -> None:
        self.masters = masters
        self.misses = misses

    def reply(self, frame: Frame) -> Frame:
        if frame.code == 106:
            table = {
                f"b{n}": {"brokerName": f"b{n}", "cluster": "c", "brokerAddrs": {"0": str(master.address)}}
                for n, master in enumerate(self.masters)
            }
            return answer(frame, body={"brokerAddrTable": table})
        if frame.code == 105:
            if self.misses:
                self.misses -= 1
                return answer(frame, 17, remark="No topic route info")
            queues = [
                {"brokerName": f"b{n}", "perm": 4, "readQueueNums": 3, "writeQueueNums": 2}
                for n, _ in enumerate(self.masters)
            ]
            brokers = json.loads(self.reply(Frame(code=106, opaque=0)).body)["brokerAddrTable"]
            return answer(frame, body={"queueDatas": queues, "brokerDatas": list(brokers.values())})
        if frame.code == 206:
            return answer(frame, body={"topicList": ["b", "a"]})
        return answer(frame)


async def test_a_topic_is_made_on_every_master_and_awaited_at_the_name_server(serve: Serve) -> None:
    one, two = await serve(answer), await serve(answer)
    namesrv = await serve(Cluster(one, two, misses=2).reply)
    async with Admin(f"namesrv://{namesrv.address}") as admin:
        await admin.create_topic("orders", type=TopicType.FIFO, queues=3)
    expected = {
        "topic": "orders", "defaultTopic": "TBW102", "readQueueNums": "3", "writeQueueNums": "3", "perm": "6",
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
        "attributes": "+message.type=FIFO",
    }  # fmt: skip
    assert [(frame.code, dict(frame.fields)) for frame in (*one.seen, *two.seen)] == [(17, expected)] * 2
    assert [frame.code for frame in namesrv.seen].count(105) == 3


async def test_a_route_that_never_appears_is_reported(serve: Serve) -> None:
    namesrv = await serve(Cluster(await serve(answer), misses=10**6).reply)
    async with Admin(f"namesrv://{namesrv.address}", timeout=1.0) as admin:
        with pytest.raises(UnreachableError, match="'orders' was created, but no route") as caught:
            await admin.create_topic("orders")
    assert caught.value.may_have_taken_effect


@pytest.mark.parametrize(
    ("readable", "writable", "perm"), [(True, False, "4"), (False, True, "2"), (False, False, "0")]
)
async def test_permissions_are_bits(serve: Serve, readable: bool, writable: bool, perm: str) -> None:
    broker = await serve(answer)
    async with Admin(f"broker://{broker.address}") as admin:
        await admin.create_topic("orders", readable=readable, writable=writable)
    assert broker.seen[0].fields["perm"] == perm


async def test_a_group_is_written_as_settings_with_retries_after_the_first_attempt(serve: Serve) -> None:
    broker = await serve(answer)
    async with Admin(f"broker://{broker.address}") as admin:
        await admin.create_group(
            "billing", ordered=True, max_attempts=3, backoff=[1, 2.5], consume_enabled=False
        )
    (request,) = broker.seen
    assert request.code == 200
    assert json.loads(request.body) == {
        "groupName": "billing",
        "consumeMessageOrderly": True,
        "retryMaxTimes": 2,
        "consumeEnable": False,
        "groupRetryPolicy": {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000, 2500]}},
    }


async def test_intervals_may_grow_exponentially(serve: Serve) -> None:
    broker = await serve(answer)
    async with Admin(f"broker://{broker.address}") as admin:
        await admin.create_group("billing", backoff=ExponentialBackoff(0.5, 6, multiplier=3))
    assert json.loads(broker.seen[0].body)["groupRetryPolicy"] == {
        "type": "EXPONENTIAL",
        "exponentialRetryPolicy": {"initial": 500, "max": 6000, "multiplier": 3},
    }


def test_intervals_that_do_not_grow_are_refused() -> None:
    for wrong in ((0, 6, 2), (7, 6, 2), (1, 6, 0)):
        with pytest.raises(ValueError, match="does not grow"):
            ExponentialBackoff(*wrong)


async def test_without_backoff_the_server_keeps_its_own_list(serve: Serve) -> None:
    broker = await serve(answer)
    async with Admin(f"broker://{broker.address}") as admin:
        await admin.create_group("billing")
    assert json.loads(broker.seen[0].body) == {
        "groupName": "billing", "consumeMessageOrderly": False, "retryMaxTimes": 16, "consumeEnable": True
    }  # fmt: skip


async def test_a_group_is_bound_to_lite_topics_by_its_attributes(serve: Serve) -> None:
    broker = await serve(answer)
    async with Admin(f"broker://{broker.address}") as admin:
        await admin.create_group("chat", lite_topic="sessions")
        await admin.create_group("phones", lite_topic="sessions", lite_quota=3, lite_exclusive=True)
    assert [json.loads(frame.body)["attributes"] for frame in broker.seen] == [
        {"+lite.bind.topic": "sessions"},
        {
            "+lite.bind.topic": "sessions",
            "+lite.sub.client.quota": "3",
            "+lite.sub.model": "Exclusive",
        },
    ]


async def test_credentials_sign_every_request_with_all_its_fields(serve: Serve) -> None:
    broker = await serve(answer)
    namesrv = await serve(Cluster(broker).reply)
    credentials = Credentials("ak", "sk")
    async with Admin(f"namesrv://{namesrv.address}", credentials=credentials) as admin:
        await admin.delete_group("billing")
    (request,) = broker.seen
    content = b"ak" + b"true" + b"billing"  # AccessKey, cleanOffset, groupName
    signature = base64.b64encode(hmac.digest(b"sk", content, "sha1")).decode()
    assert (request.fields["AccessKey"], request.fields["Signature"]) == ("ak", signature)
    assert all("Signature" in frame.fields for frame in namesrv.seen)


def test_a_signature_is_that_of_the_published_vector() -> None:
    fields = {"consumerGroup": "g", "queueId": "0", "topic": "T"}
    signed = sign(fields, b"", access_key="ak", secret_key="sk")
    assert signed["Signature"] == "9znOAa8Qur4OXDW27+zZliEMJI0="
    temporary = sign(fields, b"", access_key="ak", secret_key="sk", session_token="t")
    assert temporary["SecurityToken"] == "t"
    assert temporary["Signature"] != signed["Signature"]


async def test_users_are_made_permitted_and_deleted_with_their_rights(serve: Serve) -> None:
    broker = await serve(answer)
    async with Admin(f"broker://{broker.address}") as admin:
        await admin.create_user("shop", "secret")
        await admin.create_user("boss", "secret", super_user=True)
        await admin.permit("shop", publish=["orders"], subscribe=["*"], groups=["billing"])
        await admin.delete_user("shop")
        with pytest.raises(ValueError, match="at least one"):
            await admin.permit("shop")
    assert [frame.code for frame in broker.seen] == [3001, 3001, 3006, 3003]
    kinds = [json.loads(frame.body)["userType"] for frame in broker.seen[:2]]
    assert kinds == ["Normal", "Super"]
    rights = json.loads(broker.seen[2].body)
    assert rights["subject"] == "User:shop"
    (policy,) = rights["policies"]
    assert [(entry["resource"], entry["actions"]) for entry in policy["entries"]] == [
        ("Topic:orders", ["Pub"]),
        ("Topic:*", ["Sub"]),
        ("Group:billing", ["Sub"]),
    ]


async def test_a_request_on_a_connection_that_the_server_just_closed_is_made_again(serve: Serve) -> None:
    closed = False

    def reply(frame: Frame) -> Frame | bytes:
        nonlocal closed
        if frame.code == 207 and not closed:
            closed = True
            return b""  # the connection ends
        return answer(frame)

    broker = await serve(reply)
    async with Admin(f"broker://{broker.address}") as admin:
        await admin.delete_group("billing")
    assert [frame.code for frame in broker.seen] == [207, 207]
    assert broker.connections == 2


async def test_deleting_a_topic_ends_at_every_name_server(serve: Serve) -> None:
    broker = await serve(answer)
    one, two = await serve(Cluster(broker).reply), await serve(Cluster(broker).reply)
    async with Admin(f"namesrv://{one.address};{two.address}") as admin:
        await admin.delete_topic("orders")
    assert [frame.code for frame in broker.seen] == [215]
    assert [frame.code for frame in one.seen][-1] == 216
    assert [frame.code for frame in two.seen] == [216]


async def test_deleting_a_group_drops_its_progress(serve: Serve) -> None:
    broker = await serve(answer)
    async with Admin(f"broker://{broker.address}") as admin:
        await admin.delete_group("billing")
    assert [(frame.code, dict(frame.fields)) for frame in broker.seen] == [
        (207, {"groupName": "billing", "cleanOffset": "true"})
    ]


async def test_a_route_names_masters_and_only_queues_that_may_be_used(serve: Serve) -> None:
    broker = await serve(answer)
    namesrv = await serve(Cluster(broker).reply)
    async with Admin(f"namesrv://{namesrv.address}") as admin:
        assert await admin.route("orders") == TopicRoute(
            "orders", (QueueRange("b0", str(broker.address), readable=3, writable=0),)
        )
        assert await admin.topics() == ("a", "b")


async def test_groups_of_all_masters_are_listed_once(serve: Serve) -> None:
    def groups(*names: str) -> Callable[[Frame], Frame]:
        return lambda frame: answer(frame, body={"subscriptionGroupTable": {key: {} for key in names}})

    namesrv = await serve(Cluster(await serve(groups("a", "b")), await serve(groups("b", "c"))).reply)
    async with Admin(f"namesrv://{namesrv.address}") as admin:
        assert await admin.groups() == ("a", "b", "c")


async def test_an_unknown_topic_is_reported_with_its_name(serve: Serve) -> None:
    namesrv = await serve(Cluster(await serve(answer), misses=1).reply)
    async with Admin(f"namesrv://{namesrv.address}") as admin:
        with pytest.raises(TopicNotFoundError, match="topic 'orders'"):
            await admin.route("orders")


async def test_the_next_name_server_is_asked_when_one_is_down(serve: Serve) -> None:
    namesrv = await serve(Cluster(await serve(answer)).reply)
    async with Admin(f"namesrv://127.0.0.1:1;{namesrv.address}") as admin:
        assert await admin.topics() == ("a", "b")


async def test_all_name_servers_down_is_one_sentence() -> None:
    with pytest.raises(
        UnreachableError, match=r"none of the name servers 127\.0\.0\.1:1;127\.0\.0\.1:2 answered"
    ):
        async with Admin("namesrv://127.0.0.1:1;127.0.0.1:2"):
            raise AssertionError("entered")


async def test_a_broker_in_the_place_of_a_name_server_is_reported(serve: Serve) -> None:
    broker = await serve(lambda frame: answer(frame, 3, remark="request type 106 not supported"))
    with pytest.raises(
        NotSupportedError, match="is no name server; if it is a broker, give Admin 'broker://"
    ):
        async with Admin(f"namesrv://{broker.address}"):
            raise AssertionError("entered")


async def test_a_name_server_without_brokers_is_reported(serve: Serve) -> None:
    namesrv = await serve(Cluster().reply)
    with pytest.raises(UnreachableError, match="knows no broker"):
        async with Admin(f"namesrv://{namesrv.address}"):
            raise AssertionError("entered")


async def test_an_answer_that_cannot_be_read_is_reported(serve: Serve) -> None:
    namesrv = await serve(lambda frame: answer(frame, body=[1]))
    with pytest.raises(RocketMQError, match="a list of brokers that cannot be decoded"):
        async with Admin(f"namesrv://{namesrv.address}"):
            raise AssertionError("entered")


async def test_a_refusal_of_a_master_reaches_the_caller(serve: Serve) -> None:
    broker = await serve(lambda frame: answer(frame, 29, remark="name is bad"))
    async with Admin(f"broker://{broker.address}") as admin:
        with pytest.raises(RefusedError, match=r"group 'billing'.*name is bad"):
            await admin.create_group("billing")


async def test_a_broken_connection_is_made_again_for_the_next_call(serve: Serve) -> None:
    broker = await serve(lambda frame: b"" if frame.code == 207 else answer(frame))
    async with Admin(f"broker://{broker.address}") as admin:
        with pytest.raises(UnreachableError):
            await admin.delete_group("billing")
        await admin.create_group("billing")
    assert broker.connections == 3, "two for the call that failed, one for the next"


async def test_an_admin_outside_its_block_is_closed(serve: Serve) -> None:
    broker = await serve(answer)
    admin = Admin(f"broker://{broker.address}")
    async with admin:
        pass
    with pytest.raises(ClosedError, match="async with"):
        await admin.create_group("billing")


@pytest.mark.parametrize(
    "endpoint",
    ["localhost:9876", "http://localhost:9876", "namesrv://", "namesrv://localhost", "namesrv://h:0"],
)
def test_an_endpoint_that_names_no_server_is_refused_at_once(endpoint: str) -> None:
    with pytest.raises(ValueError, match="endpoint"):
        Admin(endpoint)


async def test_arguments_that_no_server_takes_are_refused_before_asking(serve: Serve) -> None:
    broker = await serve(answer)
    async with Admin(f"broker://{broker.address}") as admin:
        for call in (
            lambda: admin.create_topic("a b"),
            lambda: admin.create_topic("orders", queues=0),
            lambda: admin.create_topic("chats", type="LITE", lite_expiration=90),
            lambda: admin.create_group("billing", max_attempts=0),
            lambda: admin.create_group("billing", backoff=[]),
            lambda: admin.route("orders"),
        ):
            with pytest.raises(ValueError, match=r"."):
                await call()
    assert broker.seen == []
