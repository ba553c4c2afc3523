"""Whatever numbers and texts a server sends, they are within the bounds or refused in one sentence."""

from __future__ import annotations

import math
import time
import tracemalloc
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from aiorocketmq._core import bounds
from aiorocketmq._core.endpoint import Endpoint, parse_endpoint
from aiorocketmq._core.route import RouteQueue
from aiorocketmq._core.settings import ServerSettings
from aiorocketmq._session import conversion
from aiorocketmq.errors import RocketMQError, refusal
from aiorocketmq.message import ReceivedMessage
from aiorocketmq.producer import Producer
from aiorocketmq.simple_consumer import SimpleConsumer
from aiorocketmq.wire import messages as pb
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message as ProtobufMessage
from hypothesis import HealthCheck, given, settings as tried, strategies as st

ACCESS = parse_endpoint("127.0.0.1:8081")
MANY = tried(max_examples=300, deadline=2000, suppress_health_check=[HealthCheck.too_slow])

INT32 = st.sampled_from([0, 1, -1, 2, 3, 8081, 65536, 2**31 - 1, -(2**31)]) | st.integers(-(2**31), 2**31 - 1)
INT64 = st.sampled_from([0, 1, -1, 20, 2**63 - 1, -(2**63), 253_402_300_800]) | st.integers(
    -(2**63), 2**63 - 1
)
FLOATS = st.sampled_from([0.0, -1.0, 1.0, 2.0, math.inf, -math.inf, math.nan, 3.4e38, 1e-40])
TEXTS = st.sampled_from(["", "b", "mq", "10.0.0.1", "fe80::1", "a;b", "a\nb", "\x00", "x" * 300]) | st.text(
    max_size=8
)
VALUES: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_INT32: INT32,
    FieldDescriptor.TYPE_INT64: INT64,
    FieldDescriptor.TYPE_UINT32: st.integers(0, 2**32 - 1),
    FieldDescriptor.TYPE_ENUM: st.integers(-1, 6) | INT32,
    FieldDescriptor.TYPE_FLOAT: FLOATS,
    FieldDescriptor.TYPE_DOUBLE: FLOATS,
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_STRING: TEXTS,
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=8),
}


def fill(draw: Any, message: ProtobufMessage, depth: int = 0) -> None:
    """Set some fields of `message` to random values, the nested ones as well."""
    for field in message.DESCRIPTOR.fields:
        if depth > 5 or (field.message_type is not None and field.message_type.GetOptions().map_entry):
            continue
        repeated = field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED
        count = draw(st.integers(0, 3 if repeated else 1))
        for _ in range(count):
            if field.message_type is not None:
                part = getattr(message, field.name)
                nested = part.add() if repeated else part
                nested.SetInParent()
                fill(draw, nested, depth + 1)
            elif repeated:
                getattr(message, field.name).append(draw(VALUES[field.type]))
            else:
                setattr(message, field.name, draw(VALUES[field.type]))


@st.composite
def some(draw: Any, kind: type[ProtobufMessage]) -> Any:
    message = kind()
    fill(draw, message)
    # As it comes from a server: unknown numbers of enums and all.
    return kind.FromString(message.SerializeToString())


def check(settings: ServerSettings) -> None:
    backoff = settings.backoff
    assert 1 <= settings.max_body <= bounds.MAX_INT32
    assert 1 <= settings.receive_batch <= bounds.MAX_RECEIVE_BATCH
    assert bounds.MIN_LONG_POLLING <= settings.long_polling <= bounds.MAX_LONG_POLLING
    assert 0 <= settings.lite_quota <= bounds.MAX_INT32
    assert 1 <= settings.lite_topic_limit <= bounds.MAX_INT32
    assert 1 <= backoff.max_attempts <= bounds.MAX_INT32
    assert len(backoff.steps) <= bounds.MAX_BACKOFF_STEPS
    for attempt in (-(2**31), 0, 1, 2, 100, 2**31 - 1):
        assert 0 <= backoff.delay(attempt) <= bounds.MAX_BACKOFF
    if settings.metrics_endpoint is not None:
        parse_endpoint(settings.metrics_endpoint)


@MANY
@given(st.lists(some(pb.Settings), min_size=1, max_size=3), st.booleans())
def test_any_settings_are_within_the_bounds(answers: list[Any], is_producer: bool) -> None:
    client: Any = (
        Producer("127.0.0.1:8081")
        if is_producer
        else SimpleConsumer("127.0.0.1:8081", group="g", subscriptions=["t"])
    )
    for answer in answers:
        client._session.take_settings(ACCESS, answer)
        check(client._session.settings)


def check_queues(queues: Callable[[], Iterable[RouteQueue]]) -> None:
    """Queues within the bounds, or one sentence."""
    try:
        taken, refused = tuple(queues()), None
    except ValueError as error:
        taken, refused = (), str(error)
    assert refused is None or (refused.isprintable() and len(refused) < 1000)
    for each in taken:
        assert each.queue.topic == "t"
        assert each.queue.id >= -1
        assert each.queue.broker.isprintable()
        assert isinstance(each.endpoint, Endpoint)
        assert parse_endpoint(str(each.endpoint)) == each.endpoint


@MANY
@given(some(pb.QueryRouteResponse))
def test_any_route_is_within_the_bounds_or_refused(answer: Any) -> None:
    check_queues(lambda: conversion.route_from_wire("t", answer, ACCESS).queues)


@MANY
@given(some(pb.QueryAssignmentResponse))
def test_any_assignment_is_within_the_bounds_or_refused(answer: Any) -> None:
    check_queues(lambda: conversion.assigned_from_wire("t", answer, ACCESS))


@MANY
@given(some(pb.Status))
def test_any_status_is_one_short_printable_sentence(status: Any) -> None:
    error = refusal(status.code, status.message, endpoint="h:1")
    assert isinstance(error, RocketMQError)
    assert str(error).isprintable()
    assert len(str(error)) < 1300


@MANY
@given(some(pb.SystemProperties))
def test_any_times_of_a_message_can_be_read(properties: Any) -> None:
    message: ReceivedMessage = conversion.message_from_wire(
        pb.Message(body=b"x", system_properties=properties), endpoint=ACCESS, broker="b", group="g", aside=[]
    )
    for moment in (message.born_at, message.stored_at, message.deliver_at):
        assert moment is None or isinstance(moment, datetime)
    _, came, _ = conversion.properties_from(properties.SerializeToString(), None)
    for us in came[2:5]:
        assert us is None or -(2**63) <= us < 2**63


def test_settings_have_fractions_of_seconds() -> None:
    settings = pb.Settings()
    settings.subscription.long_polling_timeout.FromMilliseconds(2_250)
    policy = settings.backoff_policy
    for milliseconds in (500, 1_500):
        policy.customized_backoff.next.add().FromMilliseconds(milliseconds)
    listed = conversion.answer_from_wire(settings, ACCESS)
    policy.exponential_backoff.initial.FromMilliseconds(10)
    policy.exponential_backoff.max.FromMilliseconds(1_001)
    grows = conversion.answer_from_wire(settings, ACCESS)
    assert listed.backoff is not None
    assert grows.backoff is not None
    assert (listed.long_polling, listed.backoff.steps) == (2.25, (0.5, 1.5))
    assert (grows.backoff.initial, grows.backoff.maximum) == (0.01, 1.001)


@pytest.mark.parametrize(
    ("seconds", "nanos", "moment"),
    [
        (2**63 - 1, 0, None),
        (-(2**63), -(2**31), None),
        (253_402_300_799, 999_999_999, datetime.max.replace(tzinfo=UTC)),
        (253_402_300_799, 1_000_000_000, None),
        (-62_135_596_800, 0, datetime.min.replace(tzinfo=UTC)),
        (-62_135_596_800, -1, None),
    ],
)
def test_a_time_beyond_the_years_1_to_9999_is_unknown(
    seconds: int, nanos: int, moment: datetime | None
) -> None:
    wire = pb.Message(body=b"x")
    for timestamp in (
        wire.system_properties.born_timestamp,
        wire.system_properties.store_timestamp,
        wire.system_properties.delivery_timestamp,
    ):
        timestamp.seconds, timestamp.nanos = seconds, nanos
    message = conversion.message_from_wire(wire, endpoint=ACCESS, broker="b", group="g", aside=[])
    assert (message.born_at, message.stored_at, message.deliver_at) == (moment, moment, moment)
    assert conversion.timestamp_us(wire.system_properties.born_timestamp) is None or moment is not None


def huge_route(queues: int, addresses: int) -> pb.QueryRouteResponse:
    answer = pb.QueryRouteResponse()
    for number in range(queues):
        queue = answer.message_queues.add(id=number, permission=pb.Permission.READ_WRITE)
        queue.broker.name = f"broker-{number}"
        for index in range(addresses):
            queue.broker.endpoints.addresses.add(host=f"10.{number}.{index // 256}.{index % 256}", port=8081)
    return answer


def test_five_thousand_addresses_cost_no_memory() -> None:
    answer = huge_route(16, 5000)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="5000 addresses"):
            conversion.route_from_wire("t", answer, ACCESS)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


def test_of_a_million_back_off_steps_only_some_are_read() -> None:
    answer = pb.Settings(subscription=pb.Subscription())
    answer.backoff_policy.customized_backoff.next.extend(pb.Duration(seconds=each) for each in range(1 << 18))
    session = SimpleConsumer("127.0.0.1:8081", group="g", subscriptions=["t"])._session
    begun = time.thread_time()
    session.take_settings(ACCESS, answer)
    taken = time.thread_time()
    assert sum(each.seconds for each in answer.backoff_policy.customized_backoff.next) == (1 << 17) * (
        (1 << 18) - 1
    )
    assert taken - begun < time.thread_time() - taken, "slower than reading them all"
    assert session.settings.backoff.steps == tuple(map(float, range(bounds.MAX_BACKOFF_STEPS)))


def test_a_route_is_of_the_topic_that_was_asked_for() -> None:
    answer = pb.QueryRouteResponse()
    answer.message_queues.add(topic=pb.Resource(name="other"), broker=pb.Broker(name="b"))
    (queue,) = conversion.route_from_wire("t", answer, ACCESS).queues
    assert (queue.queue.topic, queue.endpoint) == ("t", ACCESS)
