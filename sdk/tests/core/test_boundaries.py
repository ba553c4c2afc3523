"""Each limit of the core as a row: what is within it to the last, and what is one beyond."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from dataclasses import asdict, fields
from random import Random
from typing import Any

import pytest
from aiorocketmq import Message, RetryLater
from aiorocketmq._core.bodies import answer_limit, packed, unpacked_at_once
from aiorocketmq._core.bounds import bounded_answer, check_queue, check_servers, check_sizes, clipped
from aiorocketmq._core.endpoint import Address, endpoint_of, parse_endpoint
from aiorocketmq._core.half_open import Beat, HalfOpenWatch
from aiorocketmq._core.lease import Lease, LeaseState, Outcome, Step, StepNotAllowedError
from aiorocketmq._core.names import check_group, check_lite_topic, check_topic
from aiorocketmq._core.pauses import failure_pause, poll_length, scan_pause
from aiorocketmq._core.pull_positions import PullPositions, PullTicket
from aiorocketmq._core.receive_cache import ReceiveCache
from aiorocketmq._core.remoting.batches import Member, encode_batch
from aiorocketmq._core.remoting.bodies import java_hash
from aiorocketmq._core.remoting.delays import delay_properties, level_of
from aiorocketmq._core.remoting.frame import (
    MAX_FRAME,
    Frame,
    FrameReader,
    MalformedFrameError,
    OtherProtocol,
    Serialization,
    decode,
    encode,
)
from aiorocketmq._core.remoting.properties import write_properties
from aiorocketmq._core.remoting.records import Record
from aiorocketmq._core.retries import Outage, exponential, jittered, renewal_delay, send_delay, start_delay
from aiorocketmq._core.settings import Answer, Backoff, Declaration, FilterText, ServerSettings
from aiorocketmq._core.siphash import queue_index
from aiorocketmq._core.timetable import Timetable
from aiorocketmq._core.transactions import Answer as Answer_, Decisions, Resolution
from aiorocketmq.config import Compression, Retry, Timeouts, check_client_properties

INT32 = 2**31 - 1


class Fixed(Random):
    """Chance that always gives the same number."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self._value = value

    def random(self) -> float:
        return self._value


LEAST, MOST = Fixed(0.0), Fixed(1.0)


def text(length: int) -> str:
    return "x" * length


def json_number(name: str, number: int) -> None:
    header = json.dumps({name: number}).encode()
    (read,) = FrameReader().feed(struct.pack(">ii", 4 + len(header), len(header)) + header)
    assert getattr(read, name) == number


LIMITS: dict[str, tuple[Callable[[Any], object], list[Any], list[Any]]] = {
    "topic": (check_topic, ["x", text(127), "%-_9Z"], ["", text(128), "a.b", "a b", "a\n"]),
    "group": (check_group, ["x", text(120), "%-_9Z"], ["", text(121), "a.b", "a\n"]),
    "lite topic": (check_lite_topic, ["x", text(64), "-_9Z"], ["", text(65), "a%b", "a\n"]),
    "lite topic of a server": (
        lambda name: check_lite_topic(name, longest=3), ["xxx"], ["xxxx"],
    ),
    "queues of a route": (check_sizes, [[0] * 16_384], [[0] * 16_385]),
    "addresses of a server": (check_sizes, [[128]], [[129], [1, 129]]),
    "addresses of a route": (check_sizes, [[128] * 512], [[128] * 512 + [1]]),
    "servers": (check_servers, [0, 1024], [1025]),
    "queue id": (lambda number: check_queue("b", number), [-1, 0, INT32], [-2]),
    "broker": (lambda name: check_queue(name, 0), ["", text(255)], [text(256), "a\n"]),
    "port": (
        lambda port: parse_endpoint(f"h:{port}"), [1, 65_535, "00001"], [0, -1, 65_536, 99_999, "000001", "1e3"],
    ),
    "port of a server": (lambda port: endpoint_of((Address("h", port),)), [1, 65_535], [0, -1, 65_536]),
    "host": (
        lambda host: endpoint_of((Address(host, 1),)),
        [text(63), ".".join([text(63)] * 3 + [text(62), ""])[:255]],
        [text(64), ".".join([text(63)] * 4) + ".", "-a", "a-", "a..b", "a\n"],
    ),
    **{
        f"{name} of a JSON header": (
            lambda number, name=name: json_number(name, number),  # type: ignore[misc]
            [-(2**31), -1, 0, INT32], [-(2**31) - 1, INT32 + 1],
        )
        for name in ("code", "opaque", "flag", "version")
    },
    "code of a binary header": (
        lambda code: encode(Frame(code, 1), Serialization.BINARY), [-(2**15), 2**15 - 1], [-(2**15) - 1, 2**15],
    ),
    "field name of a binary header": (
        lambda length: encode(Frame(1, 1, fields={text(length): ""}), Serialization.BINARY), [32_767], [32_768],
    ),
    "length of a frame": (
        lambda length: list(FrameReader().feed(struct.pack(">i", length))),
        [4, MAX_FRAME - 4], [3, -1, MAX_FRAME - 3],
    ),
    "header of a frame": (lambda length: decode(struct.pack(">i", length) + b"{}"), [2], [3]),
    "properties": (lambda length: write_properties({"n": text(length - 3)}), [32_767], [32_768]),
    "property": (lambda value: write_properties({"n": value}), ["\x00", "\x03"], ["\x01", "\x02", "a\x02"]),
    "flag of a batch": (
        lambda flag: encode_batch([Member(b"x", flag=flag)]), [-(2**31), INT32], [-(2**31) - 1, INT32 + 1],
    ),
    "members of a batch": (lambda count: encode_batch([Member(b"x")] * count), [1, 2], [0]),
    "priority": (lambda priority: Message("t", b"x", priority=priority), [0, INT32], [-1, INT32 + 1]),
    "delay": (
        lambda delay: Message("t", b"x", delay=delay),
        [0, 0.001, 10**11], [-0.001, 10**11 + 1, 10**400, float("inf"), float("nan")],
    ),
    "pause that a handler chooses": (RetryLater, [0, 43_200], [-0.001, 43_200.001]),
    "longest pause of a retry": (lambda longest: Retry(initial=1.0, maximum=longest), [1.0, 2], [0.999]),
    "attempts of a retry": (lambda attempts: Retry(attempts=attempts), [1, 1000], [0, 1001]),
    "level of compression": (lambda level: Compression(level=level), [1, 9], [0, 10, 5.0, True]),
    "threshold of compression": (lambda threshold: Compression(threshold=threshold), [1], [0]),
    "grace": (lambda seconds: Timeouts(not_found_grace=seconds), [0.001], [0, float("inf"), float("nan")]),
    "client properties": (
        lambda count: check_client_properties({f"k{number}": "v" for number in range(count)}), [0, 32], [33],
    ),
    "client property": (lambda value: check_client_properties({"k": value}), ["", text(256)], [text(257)]),
    "bytes of client properties": (
        lambda last: check_client_properties({f"k{n:02}": text(253) for n in range(15)} | {"k15": last}),
        [text(253)], [text(254), "é" * 127],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LIMITS)
def test_the_last_is_within_and_the_next_is_beyond(name: str) -> None:
    use, within, beyond = LIMITS[name]
    for value in within:
        use(value)
    for value in beyond:
        with pytest.raises(ValueError, match=r"."):
            use(value)


SETTINGS: dict[str, tuple[str, float, float]] = {
    "max_body": ("max_body_size", 1, INT32),
    "receive_batch": ("receive_batch_size", 1, 1024),
    "long_polling": ("long_polling_timeout", 1.0, 120.0),
    "lite_quota": ("lite_subscription_quota", 1, INT32),
    "lite_topic_limit": ("max_lite_topic_size", 1, INT32),
}


@pytest.mark.parametrize("field", SETTINGS)
def test_settings_are_brought_within_their_bounds(field: str) -> None:
    name, lowest, highest = SETTINGS[field]
    for value in (lowest, highest):
        assert bounded_answer(Answer(**{field: value})) == (Answer(**{field: value}), ())  # type: ignore[arg-type]
    for value, became in ((highest + 1, highest), (lowest / 2, lowest)):
        answer, (adjustment,) = bounded_answer(Answer(**{field: value}))  # type: ignore[arg-type]
        assert answer == Answer(**{field: became})  # type: ignore[arg-type]
        assert adjustment.field == name
        says = f"{name} {value:g} is not within {lowest:g} to {highest:g}: {became:g} is used"
        assert adjustment.text == says


@pytest.mark.parametrize(
    ("given", "became", "named"),
    [
        (Backoff(INT32, steps=(0.0, 43_200.0)), None, []),
        (Backoff(1, initial=43_200.0, maximum=43_200.0, multiplier=100.0), None, []),
        (Backoff(1, initial=1.0, maximum=2.0, multiplier=1.0), None, []),
        (Backoff(1, initial=0.001, maximum=0.002), None, []),
        (Backoff(INT32 + 1), Backoff(INT32), ["max_attempts"]),
        (Backoff(1, steps=(43_200.5,)), Backoff(1, steps=(43_200.0,)), ["next"]),
        (Backoff(1, steps=(-0.5, 1.0)), Backoff(1, steps=(0.0, 1.0)), ["next"]),
        (Backoff(1, initial=43_201.0, maximum=5.0), Backoff(1, initial=43_200.0, maximum=5.0), ["initial"]),
        (Backoff(1, initial=5.0, maximum=43_201.0), Backoff(1, initial=5.0, maximum=43_200.0), ["max"]),
        (Backoff(1, multiplier=100.5), Backoff(1, multiplier=100.0), ["multiplier"]),
        (Backoff(1, multiplier=0.5), Backoff(1, multiplier=1.0), ["multiplier"]),
        (Backoff(1, steps=(1.0,) * 1000), None, []),
        (Backoff(1, steps=(1.0,) * 1001), Backoff(1, steps=(1.0,) * 1000), ["next"]),
    ],
)  # fmt: skip
def test_a_back_off_is_brought_within_its_bounds(
    given: Backoff, became: Backoff | None, named: list[str]
) -> None:
    answer, adjustments = bounded_answer(Answer(backoff=given))
    assert answer == Answer(backoff=became or given)
    assert [each.field for each in adjustments] == named


BEFORE = ServerSettings(
    backoff=Backoff(9, steps=(1.0,)), max_body=7, validate_message_type=False, ordered=True, receive_batch=3,
    long_polling=11.0, lite_quota=5, lite_topic_limit=6, metrics_endpoint="a:1",
)  # fmt: skip
SAYING: dict[str, Any] = {
    "backoff": Backoff(4, steps=(2.0, 3.0), initial=1.0, maximum=2.0, multiplier=3.0),
    "max_body": 70, "validate_message_type": True, "ordered": False, "receive_batch": 30, "long_polling": 12.0,
    "lite_quota": 0, "lite_topic_limit": 60, "metrics_endpoint": "b:2",
}  # fmt: skip


def test_until_a_server_answers_its_usual_values_are_in_force() -> None:
    assert asdict(ServerSettings()) == {
        "backoff": {"max_attempts": 17, "steps": (), "initial": 0.0, "maximum": 0.0, "multiplier": 1.0},
        "max_body": 4 * 1024 * 1024, "validate_message_type": True, "ordered": False, "receive_batch": 32,
        "long_polling": 20.0, "lite_quota": 0, "lite_topic_limit": 64, "metrics_endpoint": None,
    }  # fmt: skip
    assert asdict(Declaration("PRODUCER")) == {
        "client_type": "PRODUCER", "topics": (), "group": None, "subscriptions": {}, "request_timeout": 3.0,
        "long_polling": None, "attempts": 3, "client_properties": {},
    }  # fmt: skip
    assert asdict(FilterText()) == {"expression": "*", "is_sql": False}


@pytest.mark.parametrize("name", [each.name for each in fields(Answer)])
def test_an_answer_changes_what_it_says_and_nothing_else(name: str) -> None:
    after = BEFORE.merged(Answer(**{name: SAYING[name]}))
    for each in fields(Answer):
        # Without an endpoint for metrics, none are exported.
        usual = None if each.name == "metrics_endpoint" else getattr(BEFORE, each.name)
        assert getattr(after, each.name) == (SAYING[name] if each.name == name else usual)


def test_settings_are_shown_by_what_has_changed_and_what_they_allow() -> None:
    after = BEFORE.merged(Answer(**SAYING))
    assert after.changes(BEFORE) == (
        "max_body 7 to 70, validate_message_type False to True, ordered True to False, receive_batch 3 to 30, "
        "long_polling 11.0 to 12.0, lite_quota 5 to 0, lite_topic_limit 6 to 60, metrics_endpoint a:1 to b:2, "
        "max_attempts 9 to 4, steps (1.0,) to (2.0, 3.0), initial 0.0 to 1.0, maximum 0.0 to 2.0, "
        "multiplier 1.0 to 3.0"
    )
    assert BEFORE.limits(is_producer=True) == "9 attempts, bodies of up to 7 bytes"
    assert BEFORE.limits(is_producer=False) == "ordered, 9 attempts, up to 3 messages at once"
    assert after.limits(is_producer=False) == "not ordered, 4 attempts, up to 30 messages at once"


# Times


def test_delays_double_from_the_first_to_the_longest_less_up_to_a_quarter() -> None:
    for failures, full in ((0, 0.2), (1, 0.2), (2, 0.4), (3, 0.8), (4, 1.0), (65, 1.0), (10_000, 1.0)):
        for random, share in ((LEAST, 1.0), (MOST, 0.75)):
            delay = exponential(failures, initial=0.2, maximum=1.0, random=random)
            assert delay == pytest.approx(full * share)
    assert [renewal_delay(failures, LEAST) for failures in (1, 2, 3)] == [1.0, 2.0, 2.0]
    assert [start_delay(failures, LEAST) for failures in (1, 2, 4, 5)] == [0.1, 0.2, 0.8, 1.0]
    assert [failure_pause(failures, throttled=False, rng=LEAST) for failures in (1, 2, 4, 5)] == [
        0.2, 0.4, 1.6, 2.0,
    ]  # fmt: skip
    assert [failure_pause(failures, throttled=True, rng=LEAST) for failures in (1, 2, 7, 8)] == pytest.approx(
        [0.02, 0.04, 1.28, 2.0]
    )
    assert [jittered(10.0, random) for random in (LEAST, Fixed(0.5), MOST)] == pytest.approx(
        [8.0, 10.0, 12.0]
    )
    assert [jittered(10.0, random, 0.5) for random in (LEAST, MOST)] == pytest.approx([5.0, 15.0])
    assert [scan_pause(unchanged) for unchanged in (0, 1, 2, 3, 9)] == [5.0, 10.0, 20.0, 30.0, 30.0]


@pytest.mark.parametrize(
    ("longest", "now", "seconds"),
    [(9.9, 1.0, 9.9), (10.0, 0.0, 10.0), (10.0, 1.0, 9.0), (20.0, 4.5, 15.5), (20.0, 5.0, 20.0)],
)
def test_long_polls_end_at_full_five_seconds(longest: float, now: float, seconds: float) -> None:
    assert poll_length(longest, now=now) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("given", "delay"),
    [
        ({}, 0.1), ({"attempt": 2}, 0.2), ({"attempt": 9}, 1.0), ({"remaining": 0.05}, 0.05),
        ({"remaining": 0.0}, None), ({"remaining": -1.0}, None), ({"can_switch": True}, 0.0),
        ({"can_switch": True, "attempt": 2}, 0.2),
        ({"throttled": True}, 4.0), ({"throttled": True, "attempt": 2}, 8.0),
        ({"throttled": True, "random": MOST}, 5.0), ({"throttled": True, "can_switch": True}, 4.0),
        ({"throttled": True, "remaining": 4.0}, None), ({"throttled": True, "remaining": 4.1}, 4.0),
        ({"throttled": True, "server": Backoff(3)}, 0.1),
        ({"throttled": True, "can_switch": True, "server": Backoff(3)}, 0.1),
    ],
)  # fmt: skip
def test_the_delay_of_a_send(given: dict[str, Any], delay: float | None) -> None:
    usual: dict[str, Any] = {
        "attempt": 1, "throttled": False, "can_switch": False, "initial": 0.1, "maximum": 1.0,
        "remaining": 60.0, "server": Backoff(9, steps=(2.0, 4.0, 8.0)), "random": LEAST,
    }  # fmt: skip
    assert send_delay(**(usual | given)) == (None if delay is None else pytest.approx(delay))


def test_attempts_of_an_outage_double_their_distance() -> None:
    outage = Outage(now=10.0, initial=0.5, maximum=1.5, random=LEAST)
    assert (outage.since, outage.attempts, outage.next_attempt) == (10.0, 1, 10.5)
    outage.attempted(now=20.0)
    assert (outage.since, outage.attempts, outage.next_attempt) == (10.0, 2, 21.0)
    outage.attempted(now=30.0)
    assert (outage.attempts, outage.next_attempt) == (3, 31.5)


def test_two_beats_in_a_row_without_answer_reconnect_once_in_half_a_minute() -> None:
    watch = HalfOpenWatch()

    def beats(*times: float, beat: Beat = Beat.TIMED_OUT) -> list[bool]:
        return [watch.should_reconnect(beat, time, begun=time - 3.0) for time in times]

    assert beats(10, 20) == [False, True]
    assert beats(30, 40, 46.9) == [False, False, False]
    assert beats(50) == [True]  # half a minute after the last one
    assert beats(60, 70, 79.9) == [False, False, False]
    assert beats(90, beat=Beat.ANSWERED) == [False]
    assert beats(100) == [False]
    assert beats(110, beat=Beat.FAILED) == [False]
    assert beats(120, 130) == [False, True]
    # What was in flight at the same time shows the same failure.
    assert watch.should_reconnect(Beat.TIMED_OUT, 170.0, begun=167.0) is False
    assert watch.should_reconnect(Beat.TIMED_OUT, 171.0, begun=169.9) is False
    assert watch.should_reconnect(Beat.TIMED_OUT, 173.0, begun=170.0) is True


@pytest.mark.parametrize(
    ("clients", "pause", "due"),
    [
        (0, 4.9, 104.9), (1, 5.0, 105.0), (1, 5.1, 106.0), (220, 10.2, 111.0), (221, 10.0, 115.0),
        (440, 10.0, 120.0), (990, 10.0, 145.0), (99_999, 10.0, 145.0), (440, 2.0, 104.0),
    ],
)  # fmt: skip
def test_jobs_of_a_crowd_are_rarer_and_due_together(clients: int, pause: float, due: float) -> None:
    table = Timetable[str](Fixed(0.5))
    table.clients = clients
    table.plan("job", pause, now=100.0)
    assert table.next_deadline() == pytest.approx(due)
    assert (table.due(due - 0.01), table.due(due + 1e-9), table.due(1e9), len(table)) == ([], ["job"], [], 0)


def test_of_many_jobs_each_is_due_once_in_order_although_others_are_forgotten() -> None:
    table = Timetable[int](Fixed(0.5))
    for job in range(50):
        table.plan(job, 1.0 + job, now=0.0)
        table.plan(job, 0.01 * job + 1.0, now=0.0)
    for job in range(0, 50, 2):
        table.forget(job)
    assert (len(table), table.due(0.99)) == (25, [])
    assert table.next_deadline() == pytest.approx(1.01)
    assert (table.due(1.05), table.due(9.0)) == ([1, 3, 5], [*range(7, 50, 2)])
    assert (len(table), table.next_deadline(), table.due(1e9)) == (0, None, [])


# Shares


@pytest.mark.parametrize("queues", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("messages", [1, 5, 10, 11])
def test_queues_share_the_room_and_together_have_no_more(queues: int, messages: int) -> None:
    cache = ReceiveCache[int](max_messages=messages, max_bytes=1000, max_ahead=4)
    for queue in range(queues):
        cache.open(queue)
    share = max(1, min(messages // queues, 4))
    assert [cache.room(queue, 100) for queue in range(queues)] == [share] * queues
    assert (cache.room(0, 1), cache.room(0, 0), cache.room(99, 1)) == (1, 0, 0)
    cache.ask(0, share)
    assert cache.room(0, 100) == 0
    cache.answered(0, share)
    cache.add(0, 10, share)
    assert (cache.room(0, 100), cache.count, cache.size) == (0, share, 10)
    assert [cache.remove(0, 10 if last == share - 1 else 0) for last in range(share)] == [
        first == 0 for first in range(share)
    ]
    assert (cache.room(0, 100), cache.count, cache.size) == (share, 0, 0)


def test_bytes_are_full_at_their_share() -> None:
    cache = ReceiveCache[int](max_messages=100, max_bytes=11, max_ahead=100)
    cache.open(0)
    cache.open(1)
    cache.add(0, 4)
    assert cache.room(0, 7) == 7
    cache.add(0, 1)  # 5 of 11 bytes for each of two
    assert cache.room(0, 7) == 0
    cache.close(1)
    assert cache.room(0, 7) == 7
    cache.add(0, 6)
    assert (cache.room(0, 7), cache.remove(0, 1)) == (0, True)


def test_a_queue_that_is_closed_counts_until_its_messages_are_gone() -> None:
    cache = ReceiveCache[int](max_messages=10, max_bytes=100, max_ahead=100)
    cache.open(0)
    cache.ask(0, 5)
    cache.add(0, 7, 2)
    cache.close(0)
    assert (cache.count, cache.size, cache.room(0, 1)) == (2, 7, 0)
    assert cache.remove(0, 3) is False
    cache.open(0)  # what was asked before is answered to nobody
    assert (cache.count, cache.size, cache.room(0, 100)) == (1, 4, 9)
    cache.close(0)
    assert cache.remove(0, 4) is False
    assert (cache.count, cache.size) == (0, 0)
    cache.add(5, 2, 3)
    assert (cache.count, cache.size) == (3, 2)


# Remoting


def test_levels_last_at_least_as_long_as_asked() -> None:
    levels = [1, 5, 10, 30, *(60 * minutes for minutes in range(1, 11)), 1200, 1800, 3600, 7200]
    for level, seconds in enumerate(levels, 1):
        assert level_of(seconds) == level
        assert level_of(seconds + 0.001) == min(level + 1, 18)
        assert delay_properties(due_us=0, delay=seconds, version=412) == {"DELAY": str(level)}
    assert (len(levels), level_of(0), level_of(1e9)) == (18, 1, 18)
    for delay in (0, 2, 7201, 1.5, None):
        assert delay_properties(due_us=0, delay=delay, version=412) is None
    for due_us, due_ms in ((1_999, "1"), (2_000, "2"), (1_893_553_535_750_999, "1893553535750")):
        assert delay_properties(due_us=due_us, delay=1, version=413) == {"TIMER_DELIVER_MS": due_ms}


def test_hashes_are_javas_at_the_ends_of_32_bits() -> None:
    # Texts whose hashes in Java are known from its own documentation and bug reports.
    assert java_hash("polygenelubricants") == -(2**31)
    assert (java_hash(""), java_hash("a"), java_hash("Aa"), java_hash("BB")) == (0, 97, 2112, 2112)
    assert java_hash("hello world") == 1794106052


def test_message_groups_are_spread_by_the_signed_hash() -> None:
    names = [f"group-{number}" for number in range(200)]
    for queues in (1, 2, 3, 5, 8):
        assert {queue_index(name, queues) for name in names} == set(range(queues))


# Leases

ALLOWED = {
    LeaseState.HELD: "change ack forward", LeaseState.IN_DOUBT: "ack forward", LeaseState.ACK_SENT: "ack",
    LeaseState.FORWARD_SENT: "forward", LeaseState.FORWARDED: "ack", LeaseState.SETTLED: "",
    LeaseState.RELEASED: "", LeaseState.LOST: "",
}  # fmt: skip


@pytest.mark.parametrize("state", LeaseState)
@pytest.mark.parametrize("step", Step)
def test_each_state_of_a_lease_allows_its_steps_only(state: LeaseState, step: Step) -> None:
    lease = Lease("h", 1.0)
    lease.state = state
    if step.value in ALLOWED[state].split():
        assert lease.begin(step) == "h"
        assert (lease.step, lease.is_ending) == (step, step is not Step.CHANGE)
        with pytest.raises(StepNotAllowedError, match=f"a {step.value} of it is still in flight"):
            lease.begin(Step.ACK)
    else:
        with pytest.raises(StepNotAllowedError) as refused:
            lease.begin(step)
        assert refused.value.lost is (state is LeaseState.LOST)
        assert (lease.step, lease.is_ending) == (None, False)


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (bytes((255, 128, 0, 1)), "255.128.0.1:65536"),
        (bytes(15) + b"\1", "[::1]:65536"),
    ],
)
def test_hosts_of_stored_messages_are_unsigned(address: bytes, text: str) -> None:
    record = Record(0, 0, "t", b"x", born_address=address + struct.pack(">i", 65_536))
    assert (record.born_host_text, str(record.born_host)) == (text, text)


@pytest.mark.parametrize(
    ("first", "second", "is_tls"),
    [(19, 3, False), (20, 3, True), (23, 3, True), (24, 3, False), (20, 2, False), (20, 4, False)],
)
def test_records_of_tls_are_told_by_two_bytes(first: int, second: int, is_tls: bool) -> None:
    with pytest.raises(MalformedFrameError) as raised:
        list(FrameReader().feed(bytes((first, second, 0, 0, 0))))
    assert isinstance(raised.value, OtherProtocol) is is_tls


def test_a_frame_that_is_too_large_is_named_by_its_whole_size() -> None:
    around = len(encode(Frame(1, 1)))
    with pytest.raises(
        ValueError, match=r"^a frame of 16,777,217 bytes is larger than the protocol's 16,777,216$"
    ):
        encode(Frame(1, 1, body=bytes(MAX_FRAME - around + 1)))


def test_small_bodies_are_decompressed_at_once() -> None:
    limit = 1 << 30
    for size in (1, 64 * 1024):
        assert unpacked_at_once(zlib.compress(bytes(size)), limit) == bytes(size)
    assert unpacked_at_once(zlib.compress(bytes(64 * 1024 + 1)), limit) is None
    # Without compression, a body takes eleven bytes more.
    largest = Random(1).randbytes(8 * 1024 - 11)
    assert len(zlib.compress(largest, 0)) == 8 * 1024
    assert unpacked_at_once(zlib.compress(largest, 0), limit) == largest
    assert unpacked_at_once(zlib.compress(largest + b"x", 0), limit) is None
    assert unpacked_at_once(zlib.compress(b"xy"), 2) == b"xy"
    assert unpacked_at_once(zlib.compress(b"xyz"), 2) is None


def test_an_answer_may_have_as_many_bytes_as_its_messages_but_not_beyond_128_mib() -> None:
    mib = 1024 * 1024
    assert [answer_limit(count) for count in (1, 2, 31, 32, 33)] == [
        4 * mib, 8 * mib, 124 * mib, 128 * mib, 128 * mib,
    ]  # fmt: skip


def test_a_body_stays_as_it_is_unless_it_becomes_smaller() -> None:
    assert packed(b"x" * 100, 5) == zlib.compress(b"x" * 100, 5)
    assert packed(b"x", 5) is None
    equal = next(
        body for body in (b"x" * size for size in range(1, 40)) if len(zlib.compress(body, 5)) == len(body)
    )
    assert packed(equal, 5) is None
    assert packed(equal + b"x", 5) is not None


NEXT = {
    # What a step and its outcome make of each state that allows it; otherwise it stays.
    (LeaseState.HELD, Step.CHANGE, Outcome.UNKNOWN): LeaseState.IN_DOUBT,
    **{
        (state, Step.ACK, Outcome.OK): LeaseState.SETTLED
        for state in (LeaseState.HELD, LeaseState.IN_DOUBT, LeaseState.ACK_SENT, LeaseState.FORWARDED)
    },
    **{
        (state, Step.ACK, Outcome.UNKNOWN): LeaseState.ACK_SENT
        for state in (LeaseState.HELD, LeaseState.IN_DOUBT, LeaseState.ACK_SENT)
    },
    **{
        (state, Step.FORWARD, Outcome.OK): LeaseState.FORWARDED
        for state in (LeaseState.HELD, LeaseState.IN_DOUBT, LeaseState.FORWARD_SENT)
    },
    **{
        (state, Step.FORWARD, Outcome.UNKNOWN): LeaseState.FORWARD_SENT
        for state in (LeaseState.HELD, LeaseState.IN_DOUBT, LeaseState.FORWARD_SENT)
    },
}


@pytest.mark.parametrize("state", [state for state, steps in ALLOWED.items() if steps])
@pytest.mark.parametrize("outcome", Outcome)
def test_each_outcome_of_a_step_leads_to_one_state(state: LeaseState, outcome: Outcome) -> None:
    for step in map(Step, ALLOWED[state].split()):
        lease = Lease("h", 1.0)
        lease.state = state
        lease.begin(step)
        lease.end(outcome)
        lost = LeaseState.LOST if outcome is Outcome.LOST else state
        assert lease.state is NEXT.get((state, step, outcome), lost)
        assert (lease.step, lease.handle) == (None, "h")
        is_changed = step is Step.CHANGE and outcome in (Outcome.OK, Outcome.UNKNOWN)
        assert (lease.changed, lease.is_open) == (is_changed, lease.state in OPEN)


OPEN = {LeaseState.HELD, LeaseState.IN_DOUBT, LeaseState.ACK_SENT, LeaseState.FORWARD_SENT}


def test_the_latest_decisions_are_kept_and_one_that_comes_again_is_the_latest() -> None:
    decisions = Decisions(kept=2, quiet=5.0)
    for message in ("a", "b", "a", "c"):
        decisions.decided(message, Resolution.COMMIT, now=0.0)
    assert len(decisions) == 2
    assert [decisions.on_check(message, now=9.0) for message in ("a", "b", "c")] == [
        Answer_.COMMIT, Answer_.ASK, Answer_.COMMIT,
    ]  # fmt: skip


def test_a_commit_of_an_earlier_offset_takes_nothing_back_that_is_completed() -> None:
    positions = PullPositions[str]()
    positions.assign(["q"])
    positions.start_at("q", 0, committed=None)
    ticket = positions.ticket("q")
    assert ticket is not None
    positions.pulled(ticket, next_offset=10, has_messages=True)
    assert positions.take(ticket)
    positions.finish(ticket, 10)
    positions.note_committed("q", 4)
    assert (positions.committed("q"), positions.due_commits()) == (4, {"q": 10})
    positions.note_committed("q", 12)
    assert (positions.committed("q"), positions.due_commits()) == (12, {})


def test_what_was_skipped_before_a_seek_is_not_completed_by_a_batch_after_it() -> None:
    positions = PullPositions[str]()
    positions.assign(["q"])
    positions.start_at("q", 0, committed=None)

    def pull(next_offset: int, *, has_messages: bool) -> PullTicket[str]:
        ticket = positions.ticket("q")
        assert ticket is not None
        assert positions.pulled(ticket, next_offset=next_offset, has_messages=has_messages)
        return ticket

    first = pull(5, has_messages=True)
    assert positions.take(first)
    pull(50, has_messages=False)
    positions.seek("q", 20)
    assert positions.due_commits() == {"q": 20}
    second = pull(25, has_messages=True)
    assert positions.take(second)
    positions.finish(first, 5)
    assert positions.due_commits() == {"q": 20}
    positions.finish(second, 25)
    assert positions.due_commits() == {"q": 25}


def test_texts_are_cut_at_a_thousand_characters() -> None:
    assert [len(clipped(text(length))) for length in (999, 1000, 1001, 2000)] == [999, 1000, 1001, 1001]
