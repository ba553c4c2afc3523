"""Both containers, used from outside as a test suite uses them; `nox -s containers` brings engine and images."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator

import docker
import pytest
from aiorocketmq import Admin, Message, Producer, SimpleConsumer, UnreachableError
from aiorocketmq_fake import FakeBrokerClient
from aiorocketmq_fake.testcontainers import ContainerError, FakeRocketMQContainer, RocketMQContainer
from testcontainers.core.labels import LABEL_SESSION_ID, SESSION_ID

pytestmark = [
    pytest.mark.containers,
    pytest.mark.skipif(
        "AIOROCKETMQ_FAKE_IMAGE" not in os.environ,
        reason="needs a container engine and images: run nox -s containers",
    ),
]
pytest_plugins = ["pytester"]

Server = RocketMQContainer | FakeRocketMQContainer


@pytest.fixture(scope="module")
def fake_image() -> str:
    return os.environ["AIOROCKETMQ_FAKE_IMAGE"]


@pytest.fixture(scope="module")
def fake_server(fake_image: str) -> Iterator[FakeRocketMQContainer]:
    with FakeRocketMQContainer(fake_image) as container:
        yield container


@pytest.fixture(scope="module")
def real_server() -> Iterator[RocketMQContainer]:
    with RocketMQContainer(os.environ["AIOROCKETMQ_IMAGE"]) as container:
        yield container


@pytest.fixture(params=["fake", "real"])
def server(request: pytest.FixtureRequest) -> Server:
    container: Server = request.getfixturevalue(f"{request.param}_server")
    return container


@pytest.fixture
def containers_left() -> Callable[[], set[str]]:
    def look() -> set[str]:
        client = docker.from_env()
        try:
            label = f"{LABEL_SESSION_ID}={SESSION_ID}"
            return {each.id for each in client.containers.list(all=True, filters={"label": label})}
        finally:
            client.close()

    return look


@pytest.mark.parametrize("wire", ["endpoint", "namesrv"])
async def test_messages_go_through_published_ports(server: Server, wire: str) -> None:
    """Routes name addresses that clients outside of the container reach, in both protocols."""
    address, topic = getattr(server, wire), f"from-outside-{wire}"
    server.create_topic(topic, queues=1)
    server.create_group(topic)
    async with Producer(address, topics=[topic]) as producer:
        receipt = await producer.send(Message(topic, b"1"))
    async with SimpleConsumer(server.endpoint, group=topic, subscriptions=[topic]) as consumer:
        (message,) = await consumer.receive(wait=20)
        await consumer.ack([message])
    assert (message.body, message.message_id) == (b"1", receipt.message_id)


async def test_topics_and_groups_have_the_given_settings(server: Server) -> None:
    server.create_topic("given-settings", type="FIFO", queues=3)
    server.create_group("given-settings", ordered=True, max_attempts=5)
    async with Admin(server.namesrv) as admin:
        (topic,) = (await admin.describe_topic("given-settings")).settings
        (group,) = await admin.describe_group("given-settings")
    assert (topic.type.value, topic.read_queues) == ("FIFO", 3)
    assert (group.ordered, group.max_attempts) == (True, 5)


async def test_a_wrong_kind_of_address_is_named(server: Server) -> None:
    name_server = server.namesrv.removeprefix("namesrv://")
    with pytest.raises(UnreachableError, match="it is a name server or broker port of the classic protocol"):
        async with Producer(name_server, topics=["t"]):
            raise AssertionError("entered")
    with pytest.raises(UnreachableError, match="speaks HTTP/2, as the gRPC port of a proxy does"):
        async with Admin(f"namesrv://{server.endpoint}"):
            raise AssertionError("entered")


async def test_the_fake_is_controlled_from_outside(fake_server: FakeRocketMQContainer) -> None:
    fake_server.create_topic("controlled")
    async with FakeBrokerClient(fake_server.control) as control:
        assert "controlled" in {topic.name for topic in await control.topics()}


def test_a_chosen_port_is_the_port_of_the_endpoint(fake_image: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with FakeRocketMQContainer(fake_image, grpc_port=port) as container:
        assert container.endpoint.endswith(f":{port}")


def test_a_taken_port_is_one_sentence_and_nothing_is_left(
    fake_image: str, containers_left: Callable[[], set[str]]
) -> None:
    before = containers_left()
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ports = {"grpc_port": port, "namesrv_port": 1 + port, "control_port": 2 + port}
        with pytest.raises(ContainerError, match=rf"a port of {port}, .* is taken on this machine"):
            FakeRocketMQContainer(fake_image, **ports).start()
    assert containers_left() == before


def test_an_image_that_cannot_be_had_is_one_sentence() -> None:
    with pytest.raises(
        ContainerError, match=r"^the image 127\.0\.0\.1:1/none is not here and cannot be pulled"
    ):
        RocketMQContainer("127.0.0.1:1/none").start()


def test_an_image_of_something_else_is_one_sentence(
    fake_image: str, containers_left: Callable[[], set[str]]
) -> None:
    before = containers_left()
    with pytest.raises(
        ContainerError, match=r"has no folder \$ROCKETMQ_HOME/lib: pass an image of Apache RocketMQ"
    ):
        RocketMQContainer(fake_image).start()
    assert containers_left() == before


def test_a_server_that_does_not_start_shows_its_last_output(
    fake_image: str, containers_left: Callable[[], set[str]]
) -> None:
    before = containers_left()
    with pytest.raises(ContainerError, match=r"last output: .*got 'nobody'") as raised:
        FakeRocketMQContainer(fake_image, arguments=("--profile", "nobody")).start()
    assert "profile must be one of" in raised.value.__notes__[0]
    assert containers_left() == before


def test_addresses_before_the_start_are_refused(fake_image: str) -> None:
    with pytest.raises(ContainerError, match="use it inside `with`"):
        _ = FakeRocketMQContainer(fake_image).endpoint


def test_the_fixtures_share_a_server_and_show_its_output_on_failure(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("pytest_plugins = ['aiorocketmq_fake.testcontainers.pytest_plugin']")
    pytester.makepyfile(
        """
        seen = []

        def test_passes(fake_rocketmq_container):
            seen.append(fake_rocketmq_container.endpoint)
            fake_rocketmq_container.exec(["sh", "-c", "echo long ago >/proc/1/fd/1"])

        def test_fails(fake_rocketmq_container):
            assert seen == [fake_rocketmq_container.endpoint]
            fake_rocketmq_container.exec(["sh", "-c", "echo the reason >/proc/1/fd/1"])
            raise AssertionError("on purpose")
        """
    )
    ended = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    ended.assert_outcomes(passed=1, failed=1)
    ended.stdout.fnmatch_lines(["*fake_rocketmq_container: its last lines*", "the reason"])
    ended.stdout.no_fnmatch_line("long ago")
