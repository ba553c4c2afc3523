"""What a `--target` means, and what a case sees of its target."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable

import pytest
from aiorocketmq_conformance.case import Case, Level
from aiorocketmq_conformance.command import RunOptions, run_command
from aiorocketmq_conformance.declaration import Declaration
from aiorocketmq_conformance.probe.clock import RealClock
from aiorocketmq_conformance.target import Target
from aiorocketmq_conformance.targets import readiness
from aiorocketmq_conformance.targets.address import AddressBroker
from aiorocketmq_conformance.targets.apache.target import ApacheBroker
from aiorocketmq_conformance.targets.choice import InvalidTargetError, choose
from aiorocketmq_conformance.targets.declarations import DECLARATIONS
from aiorocketmq_conformance.targets.fake import BundledFake
from aiorocketmq_conformance.targets.interface import TargetUnavailableError
from aiorocketmq_conformance.targets.remoting_admin import NoAdmin
from aiorocketmq_conformance.verdicts import NotApplicable
from aiorocketmq_fake import FakeBroker

from sdk.tests.remoting.script import Server, answer


@pytest.mark.parametrize(
    ("spec", "kind", "deviations"),
    [
        ("fake", BundledFake, "fake-documented"),
        ("fake:apache-5.5", BundledFake, "apache-5.5.0"),
        ("fake:apache-5.5-cluster", BundledFake, "apache-5.5.0-cluster"),
        ("apache:5.5.0", ApacheBroker, "apache-5.5.0"),
        ("apache:5.5.0:cluster", ApacheBroker, "apache-5.5.0-cluster"),
        ("localhost:8081", AddressBroker, ""),
        ("[::1]:8081", AddressBroker, ""),
    ],
)
def test_a_target_is_parsed_by_its_form(spec: str, kind: type, deviations: str) -> None:
    broker = choose(spec)
    assert type(broker) is kind
    assert broker.deviations == deviations


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "fake:nobody",
        "apache",
        "apache:5.5",
        "apache:latest",
        "localhost",
        "http://localhost:8081",
        "a b:1",
        "docker",
        "docker:",
        "docker:a b",
    ],
)
def test_an_invalid_target_is_refused_with_the_allowed_forms(spec: str) -> None:
    with pytest.raises(InvalidTargetError, match=r"fake|apache"):
        choose(spec)


# Docker's library leaves the socket open on which it found no engine.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_image_without_an_engine_is_an_unavailable_target(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    with pytest.raises(TargetUnavailableError, match=r"^no container engine answers"):
        choose("docker:apache/rocketmq:5.5.0")
    assert run_command(RunOptions(targets=("docker:apache/rocketmq:5.5.0",), cases=())) == 4
    assert capsys.readouterr().err.startswith("aiorocketmq: no container engine answers")
    gc.collect()


def test_namesrv_applies_to_an_address_only() -> None:
    with pytest.raises(InvalidTargetError, match="--namesrv"):
        choose("fake", namesrv="localhost:9876")
    assert "@topic" in choose("localhost:8081", namesrv="localhost:9876").declaration.capabilities
    assert "@topic" not in choose("localhost:8081").declaration.capabilities


def test_a_broker_in_the_place_of_a_name_server_serves_no_classic_clients() -> None:
    assert "remoting" in choose("h:1", namesrv="h:2").declaration.capabilities
    assert "remoting" in choose("h:1", namesrv="namesrv://h:2").declaration.capabilities
    assert "remoting" not in choose("h:1", namesrv="broker://h:2").declaration.capabilities
    assert "@topic" in choose("h:1", namesrv="broker://h:2").declaration.capabilities


async def test_topics_are_created_by_a_broker_without_a_name_server(make_case: Callable[..., Case]) -> None:
    async def nothing(target: Target) -> None: ...

    async with FakeBroker(remoting_port=0) as fake:
        broker = choose(fake.endpoint, namesrv=f"broker://{fake.remoting_endpoint}")
        async with broker, broker.open(make_case(nothing)) as target:
            assert target.name_server is None
            topic, group = await target.create_topic(type="FIFO", queues=2), await target.create_group()
            assert topic in {each.name for each in fake.topics()}
            assert group in {each.name for each in fake.groups()}


async def test_a_broker_as_name_server_is_an_error_with_a_remedy() -> None:
    broker = Server(lambda frame: answer(frame, 3, remark="request type 106 not supported"))
    listening = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    host, port = listening.sockets[0].getsockname()
    async with listening, FakeBroker() as fake:
        with pytest.raises(TargetUnavailableError, match=f"pass --namesrv broker://{host}:{port}$"):
            async with choose(fake.endpoint, namesrv=f"{host}:{port}"):
                raise AssertionError("entered")


@pytest.mark.parametrize("namesrv", ["h", "http://h:1", "broker://h", "h:1;h:2"])
def test_a_name_server_that_is_no_address_is_refused(namesrv: str) -> None:
    with pytest.raises(
        InvalidTargetError, match=r"--namesrv must be namesrv://HOST:PORT or broker://HOST:PORT"
    ):
        choose("h:1", namesrv=namesrv)


def test_ways_to_create_topics_exclude_each_other() -> None:
    with pytest.raises(InvalidTargetError, match="exclude each other"):
        choose("localhost:8081", namesrv="localhost:9876", control="localhost:8082")


async def test_a_remote_fake_is_prepared_through_its_control_service(make_case: Callable[..., Case]) -> None:
    async def nothing(target: Target) -> None: ...

    async with (
        FakeBroker(control="127.0.0.1:0") as fake,
        choose(fake.endpoint, control=fake.control_endpoint) as broker,
        broker.open(make_case(nothing)) as target,
    ):
        topic = await target.create_topic(type="FIFO", queues=2)
        await target.create_topic(topic, queues=8)
        group = await target.create_group(ordered=True)
        await target.create_group(group)
        assert topic in {each.name for each in fake.topics()}
        assert group in {each.name for each in fake.groups()}
        await target.admin.delete_topic(topic)
        await target.admin.delete_group(group)
        assert fake.groups() == ()


async def test_an_endpoint_without_control_service_is_an_error() -> None:
    async with FakeBroker() as fake:
        with pytest.raises(TargetUnavailableError, match=r"127\.0\.0\.1"):
            async with choose(fake.endpoint, control="127.0.0.1:1"):
                raise AssertionError("entered")


def test_an_unknown_declaration_is_refused() -> None:
    assert choose("localhost:8081", declared="documented").declaration.product == "RocketMQ 5"
    with pytest.raises(InvalidTargetError, match=r"--declared must be one of .*, got 'x'"):
        choose("localhost:8081", declared="x")


async def test_a_dead_port_is_an_error_before_any_case_runs() -> None:
    with pytest.raises(TargetUnavailableError, match=r"no RocketMQ 5 proxy answers at 127\.0\.0\.1:1 "):
        async with choose("127.0.0.1:1"):
            raise AssertionError("entered")


async def test_a_proxy_that_does_not_answer_is_reported_like_a_dead_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(readiness, "DEADLINE", 0.05)
    async with FakeBroker() as fake:
        fake.faults.delay("QueryRoute", seconds=3600)
        with pytest.raises(TargetUnavailableError, match="DEADLINE_EXCEEDED"):
            async with choose(fake.endpoint):
                raise AssertionError("entered")


async def test_without_a_name_server_topics_cannot_be_created() -> None:
    target = Target("h:1", DECLARATIONS["documented"], RealClock(), NoAdmin())
    with pytest.raises(NotApplicable, match="--namesrv"):
        await target.create_topic()
    with pytest.raises(NotApplicable, match="--namesrv"):
        await target.create_group()


@pytest.fixture
async def fake() -> AsyncIterator[Target]:
    async def nothing(target: Target) -> None: ...

    case = Case("send.one", (), Level.MUST, (), "It holds.", 60.0, nothing)
    async with choose("fake") as broker, broker.open(case) as target:
        yield target


async def test_time_on_the_fake_passes_without_waiting(fake: Target) -> None:
    before = fake.clock.now()
    await fake.clock.sleep(7200)
    assert fake.clock.now() - before == pytest.approx(7200, abs=1)


async def test_topics_and_groups_of_the_fake_are_created_replaced_and_deleted(fake: Target) -> None:
    topic = await fake.create_topic(type="FIFO", queues=2)
    assert await fake.create_topic(topic, queues=8, permission="r") == topic
    group = await fake.create_group(ordered=True)
    assert await fake.create_group(group, max_attempts=3) == group
    await fake.admin.delete_topic(topic)
    await fake.admin.delete_group(group)


def _target() -> Target:
    return Target(
        "h:1",
        Declaration("x", "1", frozenset({"dlq"}), {"a": 2, "order.grain": "queue"}),
        RealClock(),
        NoAdmin(),
    )


def test_fresh_names_never_repeat_and_differ_between_runs() -> None:
    one, two = _target(), _target()
    names = {target.fresh("topic") for target in (one, two) for _ in range(50)}
    assert len(names) == 100
    assert all("topic" in name for name in names)


def test_a_need_is_a_capability_or_a_number_of_that_value() -> None:
    target = _target()
    assert target.has("dlq")
    assert target.has("order.grain=queue")
    assert not target.has("order.grain=group")
    assert not target.has("recall")
    assert target.number("a") == 2.0
    with pytest.raises(KeyError):
        target.number("b")
