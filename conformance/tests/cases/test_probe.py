"""The probe's own parts that the cases rely on without looking."""

import pytest
from aiorocketmq.wire import messages as pb
from aiorocketmq_conformance.probe import queues, requests
from aiorocketmq_conformance.probe.answers import Delivery, code_name
from aiorocketmq_conformance.probe.client import ProbeClient
from aiorocketmq_conformance.probe.clock import RealClock
from aiorocketmq_conformance.probe.push import interval
from aiorocketmq_conformance.probe.telemetry import StreamEnded
from aiorocketmq_conformance.tolerances import Window
from aiorocketmq_fake import FakeBroker


def delivery(*, asked_at: float, at: float) -> Delivery:
    return Delivery(pb.Message(body=b"m"), at, asked_at, "client", "group", 0)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.0, (0, 0)), (1.5, (1, 500_000_000)), (-0.25, (0, -250_000_000)), (-1, (-1, 0))],
)
def test_durations_carry_their_sign_in_both_fields(seconds: float, expected: tuple[int, int]) -> None:
    request = pb.ChangeInvisibleDurationRequest()
    requests.duration(request.invisible_duration, seconds)
    assert (request.invisible_duration.seconds, request.invisible_duration.nanos) == expected


@pytest.mark.parametrize(
    ("endpoint", "scheme"),
    [("127.0.0.1:8081", "IPv4"), ("[::1]:8081", "IPv6"), ("mq.example:8081", "DOMAIN_NAME")],
)
def test_an_endpoint_has_its_scheme(endpoint: str, scheme: str) -> None:
    endpoints = requests.endpoints(endpoint)
    assert pb.AddressScheme.Name(endpoints.scheme) == scheme
    assert endpoints.addresses[0].port == 8081


def test_message_ids_are_unique() -> None:
    ids = [requests.message_id() for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert {len(one) for one in ids} == {34}


def test_a_customised_table_repeats_its_last_interval() -> None:
    settings = pb.Settings()
    for seconds in (1, 5):
        requests.duration(settings.backoff_policy.customized_backoff.next.add(), seconds)
    assert [interval(settings, attempt) for attempt in (1, 2, 3, 9)] == [1.0, 5.0, 5.0, 5.0]


def test_an_exponential_interval_stops_at_its_maximum() -> None:
    settings = pb.Settings()
    steps = settings.backoff_policy.exponential_backoff
    requests.duration(steps.initial, 2)
    requests.duration(steps.max, 6)
    steps.multiplier = 2
    assert [interval(settings, attempt) for attempt in (1, 2, 3, 4)] == [2.0, 4.0, 6.0, 6.0]


def test_too_early_is_counted_from_the_request_and_too_late_from_the_arrival() -> None:
    window, first = Window(10.0, 12.0), delivery(asked_at=100.0, at=101.0)
    window.check_return(first, delivery(asked_at=0.0, at=110.0))
    window.check_return(first, delivery(asked_at=0.0, at=113.0))
    with pytest.raises(AssertionError, match="too early"):
        window.check_return(first, delivery(asked_at=0.0, at=109.9))
    with pytest.raises(AssertionError, match="too late"):
        window.check_return(first, delivery(asked_at=0.0, at=113.1))


def test_an_unknown_code_is_shown_as_its_number() -> None:
    assert (code_name(20000), code_name(12345)) == ("OK", "12345")


async def test_the_probe_reads_queues_by_offset_and_commits() -> None:
    async with FakeBroker() as broker:
        await broker.create_topic("t", queues=1)
        await broker.create_group("g")
        async with ProbeClient(broker.endpoint, "client", RealClock()) as client:
            await client.send_settings(requests.consumer_settings("g", {"t": "*"}))
            await client.send(requests.message("t", "one"), requests.message("t", "two"))
            queue = queues.queue_of("t", 0)
            pulled = await queues.pull(client, "g", queue, 0)
            await queues.update_offset(client, "g", queue, 1)
            kept = await queues.get_offset(client, "g", queue)
            end = await queues.query_offset(client, queue, "END")
    assert [one.text for one in pulled.deliveries] == ["one", "two"]
    assert (pulled.next_offset, kept.offset, end.offset) == (2, 1, 2)


async def test_every_call_is_recorded_with_its_times_and_outcome() -> None:
    clock = RealClock()
    async with FakeBroker() as broker, ProbeClient(broker.endpoint, "client", clock) as client:
        await client.query_route("nowhere")
        with pytest.raises(StreamEnded):
            await client.send_settings(pb.Settings())
    calls = [(call.method, call.client_id, call.outcome) for call in clock.traffic.calls]
    assert calls == [
        ("QueryRoute", "client", "TOPIC_NOT_FOUND"),
        ("Telemetry", "client", "grpc:INVALID_ARGUMENT"),
    ]
    assert all(call.started <= call.ended for call in clock.traffic.calls)
    assert clock.traffic.slowest_answer() > 0
