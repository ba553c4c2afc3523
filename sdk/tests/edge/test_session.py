"""Session upkeep of a client: stay known, recover, share a connection, sign."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, suppress
from datetime import UTC, datetime

import pytest
from aiorocketmq._core.endpoint import Endpoint, parse_endpoint
from aiorocketmq._session.session import Session
from aiorocketmq._session.upkeep import Periods, Upkeep
from aiorocketmq._transport import network
from aiorocketmq._transport.credentials import FRESH, CredentialSource
from aiorocketmq._transport.grpcio import GrpcioTransport
from aiorocketmq._transport.interface import Metadata
from aiorocketmq.config import Credentials, Retry, Timeouts
from aiorocketmq.connection import Connection
from aiorocketmq.errors import (
    ClosedError,
    CredentialsProviderError,
    PermissionDeniedError,
    RocketMQError,
    ServerError,
    UnreachableError,
)
from aiorocketmq.message import Message, ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq.pull_consumer import PullConsumer
from aiorocketmq.simple_consumer import SimpleConsumer
from aiorocketmq.wire import messages as pb
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.values.events import PollParked, Refused

from sdk.tests.clients import push_consumer, simple_consumer

Awaiting = Callable[[type[object]], AbstractAsyncContextManager[None]]


class Overheard(GrpcioTransport):
    """The ordinary transport, which keeps what is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, bytes, dict[str, str]]] = []
        self.streams: list[dict[str, str]] = []
        self.reconnections = 0

    async def unary(
        self, endpoint: Endpoint, path: str, payload: bytes, metadata: Metadata, timeout: float
    ) -> bytes:
        self.calls.append((path.rpartition("/")[2], payload, dict(metadata)))
        return await super().unary(endpoint, path, payload, metadata, timeout)

    async def duplex(self, endpoint: Endpoint, path: str, metadata: Metadata):  # type: ignore[no-untyped-def]
        self.streams.append(dict(metadata))
        return await super().duplex(endpoint, path, metadata)

    async def reconnect(self, endpoint: Endpoint, grace: float = 0.0) -> None:
        self.reconnections += 1
        await super().reconnect(endpoint, grace)

    def names(self) -> list[str]:
        return [name for name, _, _ in self.calls]


@pytest.fixture
async def overheard() -> AsyncIterator[Overheard]:
    transport = Overheard()
    yield transport
    await transport.close()


async def settled(client: Producer | SimpleConsumer) -> None:
    """Wait until a server answers the settings of `client` the next time."""
    (stream,) = client._session.streams.values()
    async with asyncio.timeout(20):
        while True:
            try:
                await stream._answer.wait()
            except RocketMQError:
                continue
            return


async def test_settings_are_known_before_anything_but_the_query_for_routes(
    broker: FakeBroker, overheard: Overheard
) -> None:
    async with Producer(broker.endpoint, topics=["orders"], transport=overheard) as producer:
        assert overheard.names() == ["QueryRoute"]
        (client,) = broker.clients()
        assert (client.client_id, client.type, client.topics) == (producer.client_id, "PRODUCER", ("orders",))
        await producer.send(Message("orders", b"x"))
    assert overheard.names() == ["QueryRoute", "SendMessage", "NotifyClientTermination"]
    assert len(overheard.streams) == 1


async def test_every_call_names_the_client_and_its_language(broker: FakeBroker, overheard: Overheard) -> None:
    async with Producer(broker.endpoint, transport=overheard) as producer:
        await producer.send(Message("orders", b"x"))
        headers = [*(headers for _, _, headers in overheard.calls), *overheard.streams]
        assert {each["x-mq-client-id"] for each in headers} == {producer.client_id}
    assert {each["x-mq-language"] for each in headers} == {"PYTHON"}
    assert len({each["x-mq-request-id"] for each in headers}) == len(headers)


async def test_a_namespace_travels_in_headers_and_in_every_resource(
    broker: FakeBroker, overheard: Overheard
) -> None:
    await broker.create_topic("shop%orders")
    async with Producer(broker.endpoint, namespace="shop", transport=overheard) as producer:
        await producer.send(Message("orders", b"x"))
    assert {headers["x-mq-namespace"] for _, _, headers in overheard.calls} == {"shop"}
    sent = next(
        pb.SendMessageRequest.FromString(payload)
        for name, payload, _ in overheard.calls
        if name == "SendMessage"
    )
    query = next(
        pb.QueryRouteRequest.FromString(payload)
        for name, payload, _ in overheard.calls
        if name == "QueryRoute"
    )
    assert sent.messages[0].topic.resource_namespace == "shop"
    assert query.topic.resource_namespace == "shop"


async def test_credentials_sign_every_call_and_a_provider_is_asked_for_them(
    broker: FakeBroker, overheard: Overheard
) -> None:
    async def provider() -> Credentials:
        return Credentials("key", "secret", session_token="token")

    async with Producer(broker.endpoint, credentials=provider, transport=overheard) as producer:
        await producer.send(Message("orders", b"x"))
    for headers in (*(headers for _, _, headers in overheard.calls), *overheard.streams):
        assert headers["authorization"].startswith(
            "MQv2-HMAC-SHA1 Credential=key, SignedHeaders=x-mq-date-time"
        )
        assert headers["x-mq-session-token"] == "token"


async def test_client_properties_travel_with_the_settings(broker: FakeBroker) -> None:
    async with Producer(broker.endpoint, client_properties={"zone": "a"}) as producer:
        declared = producer._session.settings_command().settings
    assert dict(declared.client_properties) == {"zone": "a"}
    assert declared.user_agent.language == pb.Language.PYTHON
    assert declared.user_agent.hostname


async def test_a_stream_that_breaks_is_opened_again_with_our_settings(
    broker: FakeBroker, producer: Producer, overheard: Overheard
) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(settled(producer))
        await asyncio.sleep(0)
        assert broker.cut_streams() == 1
    await producer.send(Message("orders", b"x"))


async def test_a_stream_that_was_asked_for_while_broken_is_reopened_with_pauses(
    broker: FakeBroker, producer: Producer, overheard: Overheard
) -> None:
    """Who asks ends one pause; the next ones are as long as ever."""
    (stream,) = producer._session.streams.values()
    pauses: list[float] = []
    longest = asyncio.Event()

    async def pause(failures: int) -> None:
        begun = asyncio.get_running_loop().time()
        await ordinary(failures)
        pauses.append(asyncio.get_running_loop().time() - begun)
        if len(pauses) > 30 or pauses[-1] > 0.2:
            longest.set()

    ordinary, stream._pause = stream._pause, pause  # type: ignore[method-assign]
    await broker.crash()
    async with asyncio.timeout(20):
        with suppress(RocketMQError):
            await stream._answer.wait()
        with suppress(RocketMQError):
            await stream.ready()
        await longest.wait()
    assert len(pauses) <= 3


async def test_a_heartbeat_that_shows_that_we_are_forgotten_makes_us_known_again(
    broker: FakeBroker, producer: Producer
) -> None:
    with broker.faults.refuse("Heartbeat", "UNRECOGNIZED_CLIENT_TYPE", times=1):
        async with asyncio.TaskGroup() as group:
            group.create_task(settled(producer))
            await asyncio.sleep(0)
            await producer._session._upkeep.beat()
    await producer._session._upkeep.beat()
    assert [client.client_id for client in broker.clients()] == [producer.client_id]


async def test_two_heartbeats_without_answer_make_a_new_connection(
    broker: FakeBroker, overheard: Overheard
) -> None:
    timeouts = Timeouts(request=0.2)
    async with Producer(
        broker.endpoint, topics=["orders"], timeouts=timeouts, transport=overheard
    ) as producer:
        with broker.faults.drop_reply("Heartbeat", hang=True, times=2):
            with pytest.raises(UnreachableError):
                await producer._session._upkeep.beat()
            assert overheard.reconnections == 0
            with pytest.raises(UnreachableError):
                await producer._session._upkeep.beat()
        assert overheard.reconnections == 1
        await producer.send(Message("orders", b"x"))
        await producer._session._upkeep.beat()


async def test_a_server_that_asks_for_a_new_connection_gets_one(
    broker: FakeBroker, overheard: Overheard
) -> None:
    async with Producer(broker.endpoint, topics=["orders"], transport=overheard) as producer:
        async with asyncio.TaskGroup() as group:
            group.create_task(settled(producer))
            await asyncio.sleep(0)
            await broker.reconnect_endpoints(producer.client_id)
        assert overheard.reconnections == 1
        await producer.send(Message("orders", b"x"))


async def test_a_server_that_commands_one_connection_after_the_other_gets_one(
    broker: FakeBroker, overheard: Overheard
) -> None:
    """A server that commands one in each answer to settings would be answered by another stream at once."""
    async with Producer(broker.endpoint, topics=["orders"], transport=overheard) as producer:
        session = producer._session
        assert isinstance(session, Session)
        session.take_command(session.access, "reconnect_endpoints_command", pb.TelemetryCommand())
        await settled(producer)
        for _ in range(5):
            session.take_command(session.access, "reconnect_endpoints_command", pb.TelemetryCommand())
            await session.resync(session.access)
        assert len(overheard.streams) == 2
        await producer.send(Message("orders", b"x"))


async def test_the_connection_to_a_server_that_has_left_the_routes_is_closed_after_a_while(
    broker: FakeBroker, overheard: Overheard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then messages that it has delivered are settled on it."""
    async with (
        FakeBroker() as other,
        FakeBroker() as third,
        Producer(broker.endpoint, topics=["orders"], transport=overheard) as one,
    ):
        session = one._session
        assert isinstance(session, Session)
        gone, back = parse_endpoint(other.endpoint), parse_endpoint(third.endpoint)
        for endpoint in (gone, back):
            await session.open_stream(endpoint).ready()
        await session.routes.refresh()  # whose route does not name it
        assert set(session.streams) == {session.access}
        assert {gone, back} < set(overheard._channels)
        await session.open_stream(back).ready()  # it is used again
        session.close_stream(session.access)  # no route names it, but routes are looked up there
        later = asyncio.get_running_loop().time() + 601.0
        monkeypatch.setattr(network, "loop_time", lambda: later)
        await session.network.close_unused()
        assert set(overheard._channels) == {session.access, back}
        await one.send(Message("orders", b"x"))


async def test_a_call_under_way_ends_well_on_the_old_connection(
    broker: FakeBroker, consumer: SimpleConsumer, awaiting: Awaiting
) -> None:
    """A server that asks for a new connection is to be drained, and is not gone."""
    async with awaiting(PollParked):
        poll = asyncio.get_running_loop().create_task(consumer.receive(wait=20))
    async with asyncio.TaskGroup() as group:
        group.create_task(settled(consumer))
        await asyncio.sleep(0)
        await broker.reconnect_endpoints(consumer.client_id)
    async with Producer(broker.endpoint) as producer:
        await producer.send(Message("orders", b"x"))
    (message,) = await poll
    await message.ack()
    assert (message.body, message.attempt) == (b"x", 1)
    assert broker.leases() == ()


async def test_a_failed_send_isolates_its_server_until_a_heartbeat_is_answered(
    broker: FakeBroker,
) -> None:
    async with Producer(broker.endpoint, topics=["orders"], retry=Retry(attempts=1)) as producer:
        with broker.faults.fail("SendMessage", times=1), pytest.raises(UnreachableError):
            await producer.send(Message("orders", b"x"))
        assert len(producer._session.isolated) == 1
        await producer.send(Message("orders", b"x"))
        await producer._session._upkeep.beat()
        assert producer._session.isolated == set()
        with broker.faults.refuse("SendMessage", "FORBIDDEN", times=1), pytest.raises(PermissionDeniedError):
            await producer.send(Message("orders", b"x"))
        assert producer._session.isolated == set()


async def test_routes_are_refreshed_and_a_failed_refresh_changes_nothing(
    broker: FakeBroker, producer: Producer
) -> None:
    await broker.update_topic("orders", queues=8)
    await producer._session.routes.refresh()
    assert len((await producer._session.route("orders")).queues) == 8
    with broker.faults.fail("QueryRoute"), pytest.raises(RocketMQError):
        await producer._session.routes.refresh()
    assert len((await producer._session.route("orders")).queues) == 8


async def test_a_route_that_cannot_be_refreshed_keeps_no_other_from_it(broker: FakeBroker) -> None:
    await broker.create_topic("refunds", queues=1)
    async with Producer(broker.endpoint, topics=["orders", "refunds"]) as producer:
        await broker.update_topic("refunds", queues=3)
        with (
            broker.faults.refuse("QueryRoute", "INTERNAL_SERVER_ERROR", times=1),
            pytest.raises(ServerError),
        ):
            await producer._session.routes.refresh()
        assert len((await producer._session.route("refunds")).queues) == 3


async def test_a_look_up_that_fails_is_made_three_times(broker: FakeBroker, producer: Producer) -> None:
    await broker.create_topic("refunds")
    with broker.faults.fail("QueryRoute") as queries, pytest.raises(UnreachableError):
        await producer._session.route("refunds")
    assert queries.hits == 3
    with broker.faults.fail("QueryRoute", times=2):
        assert (await producer._session.route("refunds")).topic == "refunds"


async def test_a_route_that_one_client_has_looked_up_again_is_that_of_all_on_its_connection(
    broker: FakeBroker,
) -> None:
    async with (
        Connection(broker.endpoint) as rocketmq,
        Producer(rocketmq, topics=["orders"]) as first,
        Producer(rocketmq, topics=["orders"]) as second,
    ):
        await broker.update_topic("orders", queues=8)
        await first._session.routes.refresh()
        with broker.faults.fail("QueryRoute") as queries:
            await second._session.routes.refresh(age=60.0)
        assert queries.hits == 0
        assert len((await second._session.route("orders")).queues) == 8


async def test_clients_share_one_connection_and_leave_it_open(
    broker: FakeBroker, overheard: Overheard
) -> None:
    async with Connection(broker.endpoint, transport=overheard) as rocketmq:
        async with Producer(rocketmq, topics=["orders"]) as first:
            async with Producer(rocketmq, topics=["orders"]):
                pass
            await first.send(Message("orders", b"x"))
        async with simple_consumer(rocketmq) as consumer:
            (message,) = await consumer.receive(wait=5)
            await message.ack()
        assert len(overheard._channels) == 1
    assert overheard._channels == {}
    with pytest.raises(ClosedError, match="the connection was closed"):
        async with Producer(rocketmq):
            pass


async def test_many_clients_of_one_connection_start_side_by_side(broker: FakeBroker) -> None:
    async with Connection(broker.endpoint) as rocketmq:
        clients = [simple_consumer(rocketmq) for _ in range(20)]
        await asyncio.gather(*(client.__aenter__() for client in clients))
        assert len({client.client_id for client in clients}) == 20
        assert len(broker.clients()) == 20
        await asyncio.gather(*(client.__aexit__(None, None, None) for client in clients))
    assert broker.clients() == ()


async def test_a_client_says_good_bye(broker: FakeBroker) -> None:
    async with Producer(broker.endpoint, topics=["orders"]):
        assert len(broker.clients()) == 1
    assert broker.clients() == ()


async def test_a_server_that_is_gone_delays_the_end_no_longer_than_allowed(broker: FakeBroker) -> None:
    async with Producer(broker.endpoint, topics=["orders"], timeouts=Timeouts(stop=0.5)):
        await broker.crash()
        begun = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - begun < 1.5


async def test_a_client_may_be_left_in_another_task_than_it_was_entered_in(broker: FakeBroker) -> None:
    producer = Producer(broker.endpoint, topics=["orders"])
    await asyncio.create_task(producer.__aenter__())
    await producer.send(Message("orders", b"x"))
    await asyncio.create_task(producer.__aexit__(None, None, None))
    assert broker.clients() == ()


async def test_after_a_crash_and_return_of_the_broker_a_producer_continues_by_itself(
    broker: FakeBroker,
) -> None:
    async with Producer(broker.endpoint, topics=["orders"], retry=Retry(budget=1.0)) as producer:
        await producer.send(Message("orders", b"before"))
        await broker.crash()
        with pytest.raises(RocketMQError) as raised:
            await producer.send(Message("orders", b"lost"))
        assert raised.value.may_retry
        async with asyncio.TaskGroup() as group:
            group.create_task(settled(producer))
            await broker.start()
        await producer.send(Message("orders", b"after"))
    bodies = [message.body for message in broker.messages("orders")]
    assert bodies.count(b"before") == 1
    assert b"after" in bodies


async def test_a_stream_that_stays_broken_is_warned_of_once(
    broker: FakeBroker, producer: Producer, caplog: pytest.LogCaptureFixture
) -> None:
    (stream,) = producer._session.streams.values()
    name = f"the settings stream to {stream.endpoint}"
    failures = 0
    with caplog.at_level(logging.DEBUG, "aiorocketmq.tasks"):
        await broker.crash()
        async with asyncio.timeout(20):
            with suppress(RocketMQError):
                await stream._answer.wait()
            while failures < 6:
                with suppress(RocketMQError):
                    await stream.ready()
                failures += 1
        assert name in producer.health().degraded
        async with asyncio.TaskGroup() as group:
            group.create_task(settled(producer))
            await broker.start()
    records = [record for record in caplog.records if record.getMessage().startswith(name)]
    failed = [record for record in records if " failed" in record.getMessage()]
    assert len(failed) >= 6
    assert [record.levelno for record in failed].count(logging.WARNING) == 1
    assert f"{name} works again" in records[-1].getMessage()
    assert producer.health().degraded == {}


async def test_the_end_of_a_client_leaves_no_task_behind(broker: FakeBroker) -> None:
    async with (
        Producer(broker.endpoint, topics=["orders"]),
        simple_consumer(broker.endpoint),
    ):
        running = [task.get_name() for task in asyncio.all_tasks()]
        assert any(name.startswith("producer: ") for name in running)
    left = [task.get_name() for task in asyncio.all_tasks() if not task.done()]
    assert [name for name in left if name.startswith(("producer", "simple"))] == []


async def test_a_send_that_waits_for_a_route_when_the_producer_closes_ends_with_closed(
    broker: FakeBroker, awaiting: Awaiting
) -> None:
    async with Producer(broker.endpoint) as producer, awaiting(Refused):
        sending = asyncio.create_task(producer.send(Message("nothing-yet", b"x")))
    with pytest.raises(ClosedError):
        await sending


async def test_polls_of_several_topics_end_with_closed_when_the_consumer_closes(
    broker: FakeBroker, awaiting: Awaiting
) -> None:
    await broker.create_topic("refunds")
    consumer = SimpleConsumer(
        broker.endpoint, group="billing", subscriptions=["orders", "refunds"], timeouts=Timeouts(stop=0.3)
    )
    async with consumer, awaiting(PollParked):
        polling = asyncio.create_task(consumer.receive(wait=20))
    async with asyncio.timeout(5):
        (outcome,) = await asyncio.gather(polling, return_exceptions=True)
    assert outcome == [] or isinstance(outcome, ClosedError)


async def test_a_cancelled_wait_for_a_route_leaves_the_question_to_the_others(broker: FakeBroker) -> None:
    async with Producer(broker.endpoint) as producer:
        with broker.faults.delay("QueryRoute", 0.3, times=1):
            first = asyncio.create_task(producer.send(Message("orders", b"1")))
            second = asyncio.create_task(producer.send(Message("orders", b"2")))
            await asyncio.sleep(0.05)
            first.cancel()
            await second
    assert first.cancelled()
    assert [message.body for message in broker.messages("orders")] == [b"2"]


async def test_a_server_that_answers_no_settings_gets_a_new_stream(broker: FakeBroker) -> None:
    timeouts = Timeouts(request=0.3)
    async with Producer(broker.endpoint, topics=["orders"], timeouts=timeouts) as producer:
        (stream,) = producer._session.streams.values()
        silent = broker.faults.drop_reply("Telemetry", hang=True)
        with silent, pytest.raises(UnreachableError, match="did not answer our settings in time"):
            await stream.resync()
        await settled(producer)
        await producer.send(Message("orders", b"x"))


async def test_regular_jobs_continue_whatever_one_of_them_raises(
    broker: FakeBroker, overheard: Overheard, caplog: pytest.LogCaptureFixture
) -> None:
    calls = 0

    async def provider() -> Credentials:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise LookupError("the vault is locked")
        return Credentials(f"key{calls}", "secret", expires_at=datetime.now(UTC))

    async with Producer(
        broker.endpoint, topics=["orders"], credentials=provider, transport=overheard
    ) as producer:
        session = producer._session
        assert isinstance(session, Session)
        periods = Periods(heartbeat=0.03, routes=0.05, credentials=0.02, settings=0.07)
        member = session.network.scheduler.join(session._tasks)
        Upkeep(session, session.routes, periods=periods).begin(member)
        async with asyncio.timeout(10):
            await settled(producer)
            await settled(producer)
            while calls < 4 or overheard.names().count("Heartbeat") < 2:
                await settled(producer)
        member.leave()
    assert overheard.names().count("QueryRoute") > 1
    assert "credentials failed, retrying: the credentials provider failed" in caplog.text
    assert overheard.calls[-1][2]["authorization"].startswith("MQv2-HMAC-SHA1 Credential=key")


async def test_a_provider_that_failed_is_asked_again_by_the_next_call() -> None:
    results: list[Credentials | Exception] = [
        Credentials("first", "secret"), LookupError("locked"), Credentials("second", "secret")
    ]  # fmt: skip

    async def provider() -> Credentials:
        result = results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    source = CredentialSource(provider, wall=lambda: 0.0)
    assert await source.now() == await source.now() == Credentials("first", "secret")
    source._asked_at -= FRESH
    with pytest.raises(CredentialsProviderError, match="locked"):
        await source.now()
    assert await source.now() == Credentials("second", "secret")


async def test_settings_and_commands_that_mean_nothing_to_a_client_are_passed_over(
    producer: Producer, caplog: pytest.LogCaptureFixture
) -> None:
    session = producer._session
    before = session.settings
    session.take_settings(session.access, pb.Settings(subscription=pb.Subscription(fifo=True)))
    session.take_command(session.access, "something_new_command", pb.TelemetryCommand())
    assert session.settings == before
    assert "settings of another kind of client" in caplog.text
    assert "does not support" in caplog.text


async def test_the_log_of_a_start_names_wire_topics_and_limits(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "aiorocketmq")
    await broker.create_group("ordering", ordered=True, max_attempts=3)
    async with (
        Producer(broker.endpoint, topics=["orders"]),
        SimpleConsumer(broker.endpoint, group="ordering", subscriptions=["orders"]),
    ):
        texts = [each.getMessage() for each in caplog.records]
    assert [text.partition(f" started at {broker.endpoint}: ")[2] for text in texts] == [
        "producer over gRPC; topics orders; 3 attempts, bodies of up to 4194304 bytes",
        "simple consumer of group ordering over gRPC; topics orders; ordered, 3 attempts, up to 32 messages at once",
    ]


async def test_the_log_of_a_start_over_remoting_names_the_brokers(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "aiorocketmq.client")
    topics = [f"t{number}" for number in range(7)]
    async with FakeBroker(remoting_port=0, brokers=2) as broker:
        for topic in topics:
            await broker.create_topic(topic)
        async with PullConsumer(f"namesrv://{broker.remoting_endpoint}", group="g", topics=topics):
            text = caplog.records[0].getMessage()
    assert text.endswith(
        "pull consumer of group g over remoting; topics t0, t1, t2, t3, t4 and 2 more; brokers broker-a, broker-b"
    )


async def test_changed_settings_are_logged_by_what_has_changed(
    consumer: SimpleConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "aiorocketmq")
    session = consumer._session
    for batch in (7, 7):
        session.take_settings(
            session.access, pb.Settings(subscription=pb.Subscription(receive_batch_size=batch))
        )
    assert [each.getMessage() for each in caplog.records] == [
        f"settings from {session.access} changed: receive_batch 32 to 7"
    ]


async def test_settings_out_of_bounds_are_warned_of_once(
    producer: Producer, consumer: SimpleConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    session = consumer._session
    before = session.settings
    endpoint = session.access
    for batch in (-1, -1, -2):
        session.take_settings(endpoint, pb.Settings(subscription=pb.Subscription(receive_batch_size=batch)))
    assert session.settings.receive_batch == before.receive_batch
    session.take_settings(
        endpoint,
        pb.Settings(
            subscription=pb.Subscription(
                receive_batch_size=-1, long_polling_timeout=pb.Duration(seconds=10**12)
            )
        ),
    )
    assert session.settings.long_polling == 120.0
    session.take_settings(endpoint, pb.Settings(subscription=pb.Subscription(receive_batch_size=-1)))
    warned = [each.getMessage() for each in caplog.records if "out of bounds" in each.getMessage()]
    ignored = "receive_batch_size -1 is not within 1 to 1024: ignored"
    assert warned == [
        f"settings from {endpoint} are out of bounds: {ignored}",
        f"settings from {endpoint} are out of bounds: {ignored}; "
        "long_polling_timeout 1e+12 is not within 1 to 120: 120 is used",
    ]


async def test_messages_arrive_whatever_batch_size_a_server_sends(
    broker: FakeBroker, producer: Producer
) -> None:
    """The number of messages that a poll may ask for would be negative, so that no poll ever began."""
    arrived = asyncio.Event()
    bodies: list[bytes] = []

    async def handler(message: ReceivedMessage) -> None:
        bodies.append(message.body)
        arrived.set()

    async with push_consumer(broker.endpoint, handler=handler) as consumer:
        consumer._session.take_settings(
            consumer._session.access, pb.Settings(subscription=pb.Subscription(receive_batch_size=-1))
        )
        for number in range(3):  # the polls that were out already take the first ones
            arrived.clear()
            await producer.send(Message("orders", b"%d" % number))
            async with asyncio.timeout(10):
                await arrived.wait()
    assert bodies == [b"0", b"1", b"2"]


async def test_metrics_for_an_address_that_cannot_be_end_no_task(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async with Producer(broker.endpoint, topics=["orders"]) as producer:
        session = producer._session
        metric = pb.Metric(on=True)
        metric.endpoints.addresses.add(host="a b", port=70000)
        session.take_settings(session.access, pb.Settings(publishing=pb.Publishing(), metric=metric))
        assert session.settings.metrics_endpoint is None
    assert "no metrics are exported: endpoint 'a b:70000' has the port '70000'" in caplog.text
