"""Strategies that share the queues of a topic: recorded results of Java's clients, and what holds for any group."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import md5

import pytest
from aiorocketmq.allocation import (
    Allocation,
    Averagely,
    AveragelyByCircle,
    Configured,
    ConsistentHash,
    MachineRoom,
    MachineRoomNearby,
    check_allocation,
    share,
)
from aiorocketmq.message import MessageQueue
from hypothesis import given, strategies as st


def queues(text: str, topic: str = "T") -> list[MessageQueue]:
    """`broker-a:0-3 r1@a:0` and so on."""
    result = []
    for piece in text.split():
        broker, numbers = piece.rsplit(":", 1)
        first, _, last = numbers.partition("-")
        result += [
            MessageQueue(topic, broker, number) for number in range(int(first), int(last or first) + 1)
        ]
    return result


def before_dash(text: str) -> str:
    return text.partition("-")[0]


def nearby(inner: Allocation) -> MachineRoomNearby:
    return MachineRoomNearby(lambda queue: before_dash(queue.broker), before_dash, inner)


async def anything(*_: object) -> list[MessageQueue]:
    return []


HOSTS = "192.168.1.1@100 192.168.1.2@100 192.168.1.3@100 192.168.1.4@100"
ROOMS = "r1@a:0-2 r2@b:0-2 r3@c:0-2"
NEAR = "r1-a:0-2 r2-b:0-2 r3-c:0-2"

VECTORS: list[tuple[Allocation, str, str, Sequence[str], str]] = [
    (Averagely(), "a:0-7", "c1 c2 c3", ("a:0-2", "a:3-5", "a:6-7"), "T"),
    (Averagely(), "a:0-3 b:0-3", "c1 c2 c3", ("a:0-2", "a:3 b:0-1", "b:2-3"), "T"),
    (Averagely(), "a:0-1", "c1 c2 c3", ("a:0", "a:1", ""), "T"),
    (Averagely(), "a:0-1 b:0-2", "c1 c10 c2", ("a:0-1", "b:0-1", "b:2"), "T"),
    (Averagely(), "a:0-3", "c1 c1 c2", ("a:0-1", "a:0-1", "a:3"), "T"),
    (AveragelyByCircle(), "a:0-3 b:0-3", "c1 c2 c3", ("a:0 a:3 b:2", "a:1 b:0 b:3", "a:2 b:1"), "T"),
    (AveragelyByCircle(), "a:0-1", "c1 c2 c3", ("a:0", "a:1", ""), "T"),
    (ConsistentHash(), "broker-a:0-7", "c1 c2 c3", ("0 4", "1 2 5 6 7", "3"), "T"),
    (
        ConsistentHash(),
        "broker-a:0-3 broker-b:0-3",
        "c1 c2",
        ("broker-a:0 broker-a:3 broker-b:0-1 broker-b:3", "broker-a:1-2 broker-b:2"),
        "T",
    ),
    (
        ConsistentHash(),
        "broker-a:0-15",
        HOSTS,
        ("1 2 5 6 7 11 15", "3 4 8 10 13", "14", "0 9 12"),
        "TopicTest",
    ),
    (
        ConsistentHash(),
        "broker-a:0-15",
        HOSTS.replace("192.168.1.2@100 ", ""),
        ("1 2 3 4 5 6 7 10 11 13 15", "14", "0 8 9 12"),
        "TopicTest",
    ),
    (ConsistentHash(1), "broker-a:0-7", "c1 c2 c3", ("", "2 5", "0 1 3 4 6 7"), "T"),
    (
        MachineRoom(["r1", "r3"]),
        ROOMS,
        "c1 c2 c3 c4",
        ("r1@a:0 r3@c:1", "r1@a:1 r3@c:2", "r1@a:2", "r3@c:0"),
        "T",
    ),
    (MachineRoom(["r1", "r3"]), "r1@a:0", "c1 c2", ("r1@a:0", ""), "T"),
    (MachineRoom(["r1", "r3"]), "broker-a:0-2", "c1", ("",), "T"),
    (
        nearby(Averagely()),
        NEAR,
        "r1-c1 r1-c2 r2-c3",
        ("r1-a:0-1 r3-c:0", "r1-a:2 r3-c:1", "r2-b:0-2 r3-c:2"),
        "T",
    ),
    (
        nearby(AveragelyByCircle()),
        NEAR,
        "r1-c1 r1-c2 r2-c3",
        ("r1-a:0 r1-a:2 r3-c:0", "r1-a:1 r3-c:1", "r2-b:0-2 r3-c:2"),
        "T",
    ),
    (nearby(Averagely()), "r1-a:0-3 r2-b:0-3", "r1-c1 r3-c9", ("r1-a:0-3 r2-b:0-1", "r2-b:2-3"), "T"),
    (Configured(queues("a:0-1")), "a:0-7", "c1 c2", ("a:0-1", "a:0-1"), "T"),
]
"""What the released classes of Java's 5.5.0 and 4.9.7 clients returned (live-broker-remoting.md, 13)."""


@pytest.mark.parametrize("number", range(len(VECTORS)))
def test_the_shares_are_those_of_javas_clients(number: int) -> None:
    allocation, text, members, expected, topic = VECTORS[number]
    everything = queues(text, topic)
    consumers = members.split()
    for consumer, expected_share in zip(consumers, expected, strict=True):
        actual_share = list(share(allocation, everything, consumers, consumer))
        if ":" in expected_share or not expected_share:
            assert actual_share == queues(expected_share, topic)
        else:
            assert [queue.id for queue in actual_share] == [int(each) for each in expected_share.split()]


BROKERS = st.sampled_from(["r1-a", "r2-b", "r3-c"])
QUEUES = st.sets(st.builds(MessageQueue, st.just("T"), BROKERS, st.integers(0, 12)), min_size=1)
CONSUMERS = st.sets(
    st.builds("{}-{}".format, st.sampled_from(["r1", "r2", "r9"]), st.text("abc10", min_size=1)), min_size=1
)
COMPLETE: list[Allocation] = [
    Averagely(),
    AveragelyByCircle(),
    ConsistentHash(),
    ConsistentHash(1),
    nearby(Averagely()),
    nearby(ConsistentHash(3)),
]


@given(st.sampled_from(COMPLETE), QUEUES, CONSUMERS)
def test_every_queue_belongs_to_exactly_one_member(
    allocation: Allocation, everything: set[MessageQueue], consumers: set[str]
) -> None:
    shares = [share(allocation, everything, consumers, each) for each in consumers]
    assert sorted(queue for each in shares for queue in each) == sorted(everything)


@given(QUEUES, CONSUMERS, st.randoms())
def test_a_share_does_not_hang_on_the_order_of_what_is_given(
    everything: set[MessageQueue], consumers: set[str], random: object
) -> None:
    shuffled = sorted(everything, reverse=True), sorted(consumers, reverse=True)
    for allocation in COMPLETE:
        for each in consumers:
            assert share(allocation, everything, consumers, each) == share(allocation, *shuffled, each)


@given(QUEUES, st.sets(st.text("abc10", min_size=1), min_size=2))
def test_only_the_queues_of_who_leaves_move_by_consistent_hash(
    everything: set[MessageQueue], consumers: set[str]
) -> None:
    _, *rest = sorted(consumers)
    for each in rest:
        before = set(share(ConsistentHash(), everything, consumers, each))
        assert before <= set(share(ConsistentHash(), everything, rest, each))


def by_the_definition(
    everything: Sequence[MessageQueue], consumers: Sequence[str], points: int
) -> dict[MessageQueue, str]:
    """Owners by the ring as Java's clients describe it: a map of points, of which a queue gets the next one."""

    def place(text: str) -> int:
        return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:4], "big")

    ring = {place(f"{each}-{number}"): each for each in consumers for number in range(points)}
    owners = {}
    for queue in everything:
        text = f"MessageQueue [topic={queue.topic}, brokerName={queue.broker}, queueId={queue.id}]"
        owners[queue] = ring[min((point for point in ring if point >= place(text)), default=min(ring))]
    return owners


@given(st.lists(st.sampled_from(queues("a:0-60 b:0-60")), unique=True), CONSUMERS, st.integers(1, 20))
def test_consistent_hash_is_what_its_definition_says_in_the_order_of_the_queues(
    everything: list[MessageQueue], consumers: set[str], points: int
) -> None:
    members = sorted(consumers)
    owners = by_the_definition(everything, members, points)
    for each in members:
        owned = [queue for queue in everything if owners[queue] == each]
        assert ConsistentHash(points)(everything, members, each) == owned


def test_of_two_members_at_one_point_of_the_ring_the_last_one_counts() -> None:
    """Found by trying: their points for number 0 have one hash."""
    everything, members = queues("a:0-60"), ["m14901", "m63437"]
    owners = by_the_definition(everything, members, 1)
    assert set(owners.values()) == {"m63437"}
    assert ConsistentHash(1)(everything, members, "m63437") == everything
    assert ConsistentHash(1)(everything, members, "m14901") == []


def test_queues_of_a_members_own_room_come_first() -> None:
    everything = queues("r1-a:0-1 r2-b:0-1 r3-c:0-1")
    assert share(nearby(Averagely()), everything, ["r2-c1"], "r2-c1") == tuple(
        queues("r2-b:0-1 r1-a:0-1 r3-c:0-1")
    )


def test_a_fixed_list_gives_each_topic_its_own_queues_even_those_that_its_route_lacks() -> None:
    fixed = Configured([*queues("a:0 b:7"), *queues("a:1", "U")])
    assert share(fixed, queues("a:0-3"), ["c1"], "c1") == tuple(queues("a:0 b:7"))
    assert share(fixed, queues("a:0-3", "U"), ["c1"], "c1") == tuple(queues("a:1", "U"))


def test_who_is_no_member_has_no_queue() -> None:
    assert share(Averagely(), queues("a:0-3"), ["c1"], "c2") == ()
    assert share(Averagely(), [], ["c1"], "c1") == ()


@pytest.mark.parametrize(
    ("returned", "error", "words"),
    [
        (queues("a:0 a:0"), ValueError, "twice"),
        (queues("a:9"), ValueError, "no readable queue"),
        (queues("a:0", "other"), ValueError, "no readable queue"),
        (["a"], TypeError, "MessageQueue values"),
    ],
)
def test_what_a_function_of_the_application_returns_is_checked(
    returned: list[MessageQueue], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        share(lambda *_: returned, queues("a:0-3"), ["c1"], "c1")


def test_members_are_sorted_as_java_does() -> None:
    """By UTF-16 units, of which a character beyond the basic plane has two that come before U+E000."""
    members = ["\ue000", "\U00010000"]
    assert share(Averagely(), queues("a:0-1"), members, "\U00010000") == tuple(queues("a:0"))


def test_bad_parameters_are_reported_when_they_are_given() -> None:
    for wrong in (Averagely, "AVG", anything):
        with pytest.raises(TypeError, match="must be a strategy such as"):
            check_allocation(wrong)
    check_allocation(Averagely())
    check_allocation(lambda queues, consumers, consumer: queues)
    with pytest.raises(ValueError, match="virtual_nodes"):
        ConsistentHash(0)
    with pytest.raises(TypeError, match="collection of names"):
        MachineRoom("r1")
    with pytest.raises(ValueError, match="name of a room"):
        share(MachineRoomNearby(lambda _: "", lambda _: "r"), queues("a:0"), ["c1"], "c1")
