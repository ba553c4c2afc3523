"""Users, signatures and rights: inventory 4.16."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aiorocketmq._remoting.codes import RequestCode, ResponseCode
from aiorocketmq.config import Credentials
from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import METHODS

from aiorocketmq_conformance.case import EXTENSION, INFORMATIONAL, case
from aiorocketmq_conformance.consumer import LEASE, Consumer
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import code_name, code_of
from aiorocketmq_conformance.probe.client import ProbeClient
from aiorocketmq_conformance.probe.remoting import consuming
from aiorocketmq_conformance.probe.signing import signed
from aiorocketmq_conformance.target import Rights

NEEDS = ("auth", "@acl")
DENIED = "UNAUTHORIZED"
DAY = 86_400.0
# Authentication precedes the check of the client id; pull calls are not served everywhere.
UNARY = (
    *("QueryRoute", "Heartbeat", "SendMessage", "QueryAssignment", "AckMessage", "EndTransaction"),
    *("ForwardMessageToDeadLetterQueue", "ChangeInvisibleDuration", "NotifyClientTermination"),
)


@dataclass(frozen=True, slots=True)
class Guarded:
    """A broker with authentication, a topic and a group."""

    fixture: Fixture
    topic: str
    group: str

    async def user(self, name: str, **rights: tuple[str, ...]) -> str:
        """Create a user with the given rights, by default all; return its access key, which is also its secret."""
        key = self.fixture.fresh(name)
        await self.fixture.target.rights_of(Rights(key, key, **rights))
        return key

    async def client(self, key: str, **headers: str) -> ProbeClient:
        """Return a client that signs as a user; `headers` replace those of its signature."""
        return await self.fixture.client(**{**signed(key, key, at=self.fixture.clock.wall()), **headers})

    async def consumer(self, key: str) -> Consumer:
        """Return a consumer that signs as a user and has sent its settings."""
        client = await self.client(key)
        kind = pb.ClientType.SIMPLE_CONSUMER
        await client.send_settings(requests.consumer_settings(self.group, {self.topic: "*"}, kind))
        return Consumer(client, self.topic, self.group, "*", kind)

    async def send(self, client: ProbeClient, body: str) -> str:
        """Send a message; return the response's code."""
        return code_of(await client.send(requests.message(self.topic, body)))


async def guarded(fixture: Fixture) -> Guarded:
    """Create topic and group before authentication is enabled by the first user."""
    return Guarded(fixture, await fixture.topic(queues=1), await fixture.group())


@case("auth.good", rules=("1.3", "R14.1"), level=EXTENSION, needs=NEEDS)
async def good(fixture: Fixture) -> None:
    """A user with the rights to topic and group sends, receives and acks."""
    broker = await guarded(fixture)
    rights = {"publish": (broker.topic,), "subscribe": (broker.topic,), "groups": (broker.group,)}
    consumer = await broker.consumer(await broker.user("user", **rights))
    assert await broker.send(consumer.client, "1") == "OK"
    await consumer.take(1)


@case(
    "auth.missing",
    rules=("R1.12", "R1.1"),
    level=EXTENSION,
    needs=NEEDS,
    params={name: name for name in (*UNARY, "ReceiveMessage")},
)
async def missing(fixture: Fixture, name: str) -> None:
    """{} without credentials is UNAUTHORIZED, even if the client id is missing, too."""
    broker = await guarded(fixture)
    await broker.user("user")
    for headers in ({}, {"x_mq_client_id": None}):
        client = await fixture.client(**headers)
        if name == "ReceiveMessage":
            received = await client.receive(broker.topic, broker.group)
            code = received.error or code_name(received.code)
        else:
            code = code_of(await client.unary(name, METHODS[name].request()))
        assert code == DENIED, f"answered with {code}"


@case("auth.bad-key", rules=("R1.12",), level=EXTENSION, needs=NEEDS)
async def bad_key(fixture: Fixture) -> None:
    """A signature of an unknown access key is UNAUTHORIZED."""
    broker = await guarded(fixture)
    await broker.user("user")
    await denied(broker, await broker.client("unknown"))


async def denied(broker: Guarded, client: ProbeClient) -> None:
    """Assert that a route query and a send of this client are refused."""
    route = code_of(await client.query_route(broker.topic))
    sent = await broker.send(client, "denied")
    assert (route, sent) == (DENIED, DENIED), f"route was answered with {route}, send {sent}"


@case("auth.bad-signature", rules=("R1.12",), level=EXTENSION, needs=NEEDS)
async def bad_signature(fixture: Fixture) -> None:
    """A signature made with another secret is UNAUTHORIZED."""
    broker = await guarded(fixture)
    key = await broker.user("user")
    await denied(broker, await fixture.client(**signed(key, "wrong", at=fixture.clock.wall())))


@case("auth.altered-date", rules=("R1.11", "R1.12"), level=EXTENSION, needs=NEEDS)
async def altered_date(fixture: Fixture) -> None:
    """A date that was changed after signing is UNAUTHORIZED."""
    broker = await guarded(fixture)
    key = await broker.user("user")
    now = fixture.clock.wall()
    await denied(broker, await fixture.client(**signed(key, key, at=now, shown=now + 1)))


@case("auth.stale-date", rules=("R1.11",), level=INFORMATIONAL, needs=NEEDS)
async def stale_date(fixture: Fixture) -> None:
    """The response to a signature that is one day old is recorded."""
    broker = await guarded(fixture)
    key = await broker.user("user")
    client = await fixture.client(**signed(key, key, at=fixture.clock.wall() - DAY))
    fixture.note("a day old", code_of(await client.query_route(broker.topic)))


@case("auth.send-denied", rules=("R14.2", "R14.4"), level=EXTENSION, needs=NEEDS)
async def send_denied(fixture: Fixture) -> None:
    """A send by a user with subscribe permission only is refused, and nothing is stored."""
    broker = await guarded(fixture)
    reader = await broker.user("reader", publish=(), subscribe=(broker.topic,), groups=(broker.group,))
    consumer = await broker.consumer(reader)
    assert await broker.send(consumer.client, "denied") == DENIED
    writer = await broker.client(await broker.user("writer"))
    assert await broker.send(writer, "allowed") == "OK"
    taken = await consumer.take(1)
    assert [delivery.message.body for delivery in taken] == [b"allowed"]


@case("auth.receive-denied", rules=("R14.2", "R14.4"), level=EXTENSION, needs=NEEDS)
async def receive_denied(fixture: Fixture) -> None:
    """Settings and receives of a user with publish permission only are refused."""
    broker = await guarded(fixture)
    key = await broker.user("writer", publish=(broker.topic,), subscribe=(), groups=())
    await receives_nothing(broker, key)


@case("auth.group-denied", rules=("R14.2", "R14.4"), level=EXTENSION, needs=NEEDS)
async def group_denied(fixture: Fixture) -> None:
    """Permission for a topic without permission for the group does not allow a receive."""
    broker = await guarded(fixture)
    key = await broker.user("outsider", groups=(fixture.fresh("other"),))
    await receives_nothing(broker, key)


async def receives_nothing(broker: Guarded, key: str) -> None:
    """Assert that a user cannot receive from the topic while another user can."""
    client = await broker.client(key)
    stream = await client.open_stream()
    settings = requests.consumer_settings(broker.group, {broker.topic: "*"}, pb.ClientType.SIMPLE_CONSUMER)
    await stream.send(pb.TelemetryCommand(settings=settings))
    code = code_of(await stream.next())
    assert code == DENIED, f"settings were answered with {code}"
    writer = await broker.user("authorized")
    assert await broker.send(await broker.client(writer), "1") == "OK"
    answer = await client.receive(broker.topic, broker.group, invisible=LEASE)
    assert code_name(answer.code) == DENIED
    assert not answer.deliveries
    await (await broker.consumer(writer)).take(1)


@case("auth.ack-denied", rules=("R14.2",), level=EXTENSION, needs=NEEDS, timeout=90.0)
async def ack_denied(fixture: Fixture) -> None:
    """An ack by a user without permission for the group is refused, and the lease of its owner remains valid."""
    broker = await guarded(fixture)
    owner = await broker.consumer(await broker.user("owner"))
    assert await broker.send(owner.client, "1") == "OK"
    leased = await owner.one()
    outsider = await broker.client(await broker.user("thief", groups=(fixture.fresh("other"),)))
    reply = await outsider.ack(broker.topic, broker.group, leased)
    assert code_of(reply) == DENIED
    await owner.ack(leased)


@case("auth.calls", rules=("R14.2", "R14.4"), level=EXTENSION, needs=NEEDS, timeout=120.0)
async def calls(fixture: Fixture) -> None:
    """Each call needs the rights to what it names: to send to its topic, to receive from it, and to its group."""
    broker = await guarded(fixture)
    topic, group = requests.resource(broker.topic), requests.resource(broker.group)
    both: dict[str, Any] = {"topic": topic, "group": group}
    id_ = requests.message_id()
    transaction: dict[str, Any] = {
        "message_id": id_,
        "transaction_id": id_,
        "resolution": pb.TransactionResolution.COMMIT,
    }
    entry = pb.AckMessageEntry(message_id=id_, receipt_handle="no handle")
    consumer = pb.ClientType.SIMPLE_CONSUMER
    # With only one kind of right, and with those of a consumer.
    of_producers, of_members, of_all = (
        ("publish",),
        ("groups", "consumer"),
        ("publish", "subscribe", "consumer"),
    )
    endpoints = requests.endpoints(fixture.target.endpoint)
    rows: dict[str, tuple[Any, tuple[str, ...]]] = {
        "QueryRoute": (pb.QueryRouteRequest(topic=topic, endpoints=endpoints), of_all),
        "SendMessage": (
            pb.SendMessageRequest(messages=[requests.message(broker.topic, "m")]),
            of_producers,
        ),
        "EndTransaction": (pb.EndTransactionRequest(topic=topic, **transaction), of_producers),
        "RecallMessage": (pb.RecallMessageRequest(topic=topic, recall_handle="no handle"), of_producers),
        "Heartbeat": (pb.HeartbeatRequest(group=group, client_type=consumer), of_members),
        "QueryAssignment": (pb.QueryAssignmentRequest(**both, endpoints=endpoints), ("consumer",)),
        "AckMessage": (pb.AckMessageRequest(**both, entries=[entry]), ("consumer",)),
        "ForwardMessageToDeadLetterQueue": (
            pb.ForwardMessageToDeadLetterQueueRequest(**both, receipt_handle="no handle", message_id=id_),
            ("consumer",),
        ),
        "ChangeInvisibleDuration": (
            pb.ChangeInvisibleDurationRequest(**both, receipt_handle="no handle", message_id=id_),
            of_members,
        ),
        "NotifyClientTermination": (pb.NotifyClientTerminationRequest(group=group), of_members),
    }
    mine = {"publish": (broker.topic,), "subscribe": (broker.topic,), "groups": (broker.group,)}
    users = {kind: (kind,) for kind in mine} | {"consumer": ("subscribe", "groups")}
    clients = {
        user: await broker.client(
            await broker.user(user, **{kind: mine[kind] if kind in kinds else () for kind in mine})
        )
        for user, kinds in users.items()
    }
    for name, (request, allowed) in rows.items():
        codes = {user: code_of(await client.unary(name, request)) for user, client in clients.items()}
        passed = {user for user, code in codes.items() if code != DENIED}
        assert passed == set(allowed), f"{name} was answered with {codes}"
    other = await fixture.topic()
    both_ways = await broker.client(
        await broker.user("both", publish=(other,), subscribe=(broker.topic,), groups=(broker.group,))
    )
    code = code_of(await both_ways.unary("QueryRoute", rows["QueryRoute"][0]))
    assert code == "OK", f"the route for a subscriber that publishes elsewhere was answered with {code}"


@case(
    "auth.remoting",
    rules=("remoting-protocol.md 8",),
    level=EXTENSION,
    needs=(*NEEDS, "remoting"),
    timeout=120.0,
)
async def remoting(fixture: Fixture) -> None:
    """Over remoting, too, each request needs a signature, and the rights to what it names."""
    broker = await guarded(fixture)
    topic, group = broker.topic, broker.group
    mine = {"publish": (topic,), "subscribe": (topic,), "groups": (group,)}
    users = {kind: (kind,) for kind in mine} | {"consumer": ("subscribe", "groups")}
    signers: dict[str, Credentials | None] = {}
    for user, kinds in users.items():
        key = await broker.user(user, **{kind: mine[kind] if kind in kinds else () for kind in mine})
        signers[user] = Credentials(key, key)
        signers[f"{user} with another secret"] = Credentials(key, "other")
    signers |= {"nobody": None, "stranger": Credentials("stranger", "stranger")}
    of_administrators: dict[RequestCode, dict[str, object]] = {
        RequestCode.DELETE_TOPIC_IN_BROKER: {"topic": topic},
        RequestCode.GET_TOPIC_CONFIG: {"topic": topic},
        RequestCode.GET_TOPIC_STATS_INFO: {"topic": topic},
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: {"topic": topic, "group": group, "timestamp": -1},
        RequestCode.DELETE_SUBSCRIPTIONGROUP: {"groupName": group},
        RequestCode.GET_CONSUMER_CONNECTION_LIST: {"consumerGroup": group},
        RequestCode.GET_CONSUME_STATS: {"consumerGroup": group},
        RequestCode.GET_CONSUMER_RUNNING_INFO: {"consumerGroup": group, "clientId": "c"},
        RequestCode.GET_PRODUCER_CONNECTION_LIST: {"producerGroup": "p"},
    }
    of_clients: dict[RequestCode, dict[str, object]] = {
        RequestCode.GET_CONSUMER_LIST_BY_GROUP: {"consumerGroup": group},
        RequestCode.UNREGISTER_CLIENT: {"clientID": "c", "consumerGroup": group},
        RequestCode.CONSUMER_SEND_MSG_BACK: {"group": group, "offset": 0, "delayLevel": 0, "originTopic": topic},
        RequestCode.QUERY_MESSAGE: {
            "topic": topic, "key": "k", "maxNum": 1, "beginTimestamp": 0, "endTimestamp": 1 << 42
        },
        RequestCode.END_TRANSACTION: {
            "topic": topic, "producerGroup": "p", "tranStateTableOffset": 0, "commitLogOffset": 0,
            "commitOrRollback": 8, "fromTransactionCheck": "false", "msgId": "m"
        },
    }  # fmt: skip
    if fixture.target.has("recall"):
        of_clients[RequestCode.RECALL_MESSAGE] = {"topic": topic, "recallHandle": "none"}
    passed: dict[str, set[str]] = {}
    for user, credentials in signers.items():
        probe = fixture.member(credentials=credentials)
        for request, fields in of_administrators.items():
            answer = (await probe.ask(topic, request, fields)).code
            assert answer == ResponseCode.NO_PERMISSION, f"{user}: {request.name} was answered with {answer}"
        own, other = consuming(group, [topic]), consuming(fixture.fresh("other"), [topic])
        codes = {
            "heartbeat": (await probe.beat(topic, consumers=[own])).code,
            "heartbeat of two": (await probe.beat(topic, consumers=[own, other])).code,
            "lock": (await probe.ask_lock(group, topic, 0)).code,
            "send": (await probe.send(topic, b"m")).code,
            "pull": (await probe.pull(topic, group, 0)).code,
            "commit": (await probe.commit(topic, group, 0)).code,
            "committed": (await probe.committed(topic, group)).code,
            **{
                request.name: (await probe.ask(topic, request, fields)).code
                for request, fields in of_clients.items()
            },
        }
        for call, code in codes.items():
            if code != ResponseCode.NO_PERMISSION:
                passed.setdefault(call, set()).add(user)
    consumer = {call: {"consumer"} for call in ("heartbeat", "lock", "pull", "commit", "committed")}
    requests_of_members = ("GET_CONSUMER_LIST_BY_GROUP", "UNREGISTER_CLIENT", "CONSUMER_SEND_MSG_BACK")
    member = {call: {"groups", "consumer"} for call in requests_of_members}
    reader = {"QUERY_MESSAGE": {"subscribe", "consumer"}}
    producer = {"send": {"publish"}, "END_TRANSACTION": {"publish"}}
    if RequestCode.RECALL_MESSAGE in of_clients:
        producer["RECALL_MESSAGE"] = {"publish"}
    assert passed == {**producer, **consumer, **member, **reader}


@case("auth.patterns", rules=("R14.2", "R14.4"), level=EXTENSION, needs=NEEDS, timeout=120.0)
async def patterns(fixture: Fixture) -> None:
    """A right to names covers these only, one to a prefix with a star all names that begin so."""
    stem = fixture.fresh("stem")
    names = (stem, f"{stem}-1", f"{stem}-1-2", f"x{stem}", stem[:-1])
    for name in names:
        await fixture.target.create_topic(name, queues=1)
        await fixture.target.create_group(f"{name}-g")
    rows = (
        ((stem,), names[:1]),
        ((f"{stem}*",), names[:3]),
        ((f"{stem}-1*",), names[1:3]),
        ((f"x{stem}*", f"{stem}-1"), (names[1], names[3])),
        ((f"{stem}-1-2", stem), (names[0], names[2])),
    )
    for rights, covered in rows:
        groups = tuple(each if each.endswith("*") else f"{each}-g" for each in rights)
        grants = {"publish": rights, "subscribe": rights, "groups": groups}
        for right in grants:
            key = fixture.fresh(right)
            granted = {other: (grants[other] if other == right else ("*",)) for other in grants}
            await fixture.target.rights_of(Rights(key, key, **granted))
            client = await fixture.client(**signed(key, key, at=fixture.clock.wall()))
            allowed = [name for name in names if await _may(client, right, name, names[0])]
            assert allowed == list(covered), f"{right} {rights} allows {allowed}, not {list(covered)}"


async def _may(client: ProbeClient, right: str, name: str, any_topic: str) -> bool:
    """Return whether a user may send to a topic, receive from one, or receive as a group."""
    if right == "publish":
        code = code_of(await client.send(requests.message(name, "m")))
    else:
        topic = any_topic if right == "groups" else name
        group = f"{name if right == 'groups' else any_topic}-g"
        entry = (requests.message_id(), "no handle")
        code = code_of(await client.ack(topic, group, entry))
    return code != DENIED


@case("auth.revoked", rules=("R14.1",), level=EXTENSION, needs=NEEDS, timeout=330.0)
async def revoked(fixture: Fixture) -> None:
    """A removed user, even the last one, is refused once the server's caches have expired."""
    broker = await guarded(fixture)
    key = await broker.user("user")
    client = await broker.client(key)
    assert await broker.send(client, "before") == "OK"
    for removed in (await broker.user("another"), key):
        await fixture.target.revoke(removed)
    end = fixture.clock.now() + 300.0
    while (code := await broker.send(client, "after")) != DENIED:
        assert fixture.clock.now() < end, f"a removed user is answered with {code} after five minutes"
        await fixture.clock.sleep(5.0)


@case("auth.settings", rules=("R14.2", "R14.5"), level=EXTENSION, needs=NEEDS)
async def settings_of_two_topics(fixture: Fixture) -> None:
    """A client's settings are refused if its user may not send to, or receive from, one of the topics, in any place."""
    broker = await guarded(fixture)
    other = await fixture.topic(queues=1)
    producer = await broker.user("producer", publish=(broker.topic,))
    consumer = await broker.user("consumer", subscribe=(broker.topic,))
    for topics, expected in (
        ((broker.topic,), "OK"),
        ((broker.topic, other), DENIED),
        ((other, broker.topic), DENIED),
    ):
        for key, settings in (
            (producer, requests.producer_settings(*topics)),
            (consumer, requests.consumer_settings(broker.group, dict.fromkeys(topics, "*"))),
        ):
            stream = await (await broker.client(key)).open_stream()
            await stream.send(pb.TelemetryCommand(settings=settings))
            code = code_of(await stream.next())
            assert code == expected, f"settings of {key} with {topics} were answered with {code}"


@case("auth.telemetry", rules=("R1.2", "R14.5"), level=EXTENSION, needs=NEEDS)
async def telemetry(fixture: Fixture) -> None:
    """Settings without credentials are answered with UNAUTHORIZED, and the stream ends."""
    broker = await guarded(fixture)
    await broker.user("user")
    stream = await (await fixture.client()).open_stream()
    await stream.send(pb.TelemetryCommand(settings=requests.producer_settings(broker.topic)))
    code: Any = (await stream.next()).status.code
    assert code_name(code) == DENIED, f"answered with {code_name(code)}"
    assert await stream.ended() == "OK"
