"""Descriptions of worlds as plain values: what exists, what is sent, and which faults happen; a function of a seed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from random import Random

SENDING = (1.0, 70.0)
"""Seconds within which messages are sent."""
LONG = 60
"""Messages below this number may take a handler longer than a lease: all of them must end in time."""
FAULTS = (3.0, 60.0)
"""Seconds within which faults begin."""


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic."""

    name: str
    type: str
    queues: int


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """A consumer group of one topic, and the kind of its members."""

    name: str
    topic: int
    kind: str
    """`push`, `simple` or `pull`."""
    ordered: bool
    max_attempts: int
    steps: tuple[float, ...]
    filter: str


@dataclass(frozen=True, slots=True)
class MemberPlan:
    """A client: a producer, or a consumer of a group."""

    name: str
    group: int | None
    """None for producers."""
    begin: float = 0.0
    end: float | None = None
    """When it leaves; None for the end of the world."""
    concurrency: int = 8
    cache: int = 64
    batch: int = 16
    invisible: float = 30.0
    keep_alive: bool = True
    linger: float | None = None
    auto_commit: float | None = None


@dataclass(frozen=True, slots=True)
class SendPlan:
    """One message."""

    number: int
    at: float
    producer: int
    topic: int
    tag: str | None = None
    message_group: str | None = None
    delay: float | None = None
    outcome: str = ""
    """Of a transaction: `commit`, `rollback`, or one of them that only a check finds out."""


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """One fault; which client or broker it hits is a number modulo their count, -1 for all."""

    number: int
    kind: str
    at: float
    seconds: float
    target: int
    value: float = 0.0


@dataclass(frozen=True, slots=True)
class World:
    """Everything that happens, but for what the network's random source adds."""

    seed: int
    profile: str
    brokers: int
    has_disk: bool
    topics: tuple[TopicPlan, ...]
    groups: tuple[GroupPlan, ...]
    producers: tuple[MemberPlan, ...]
    consumers: tuple[MemberPlan, ...]
    sends: tuple[SendPlan, ...]
    faults: tuple[FaultPlan, ...]

    @property
    def items(self) -> list[str]:
        """What may be left out, faults last: `s3` is a send, `f0` a fault."""
        return [f"s{each.number}" for each in self.sends] + [f"f{each.number}" for each in self.faults]

    def having(self, items: Collection[str]) -> World:
        """Return the world with some of its sends and faults only."""
        return replace(
            self,
            sends=tuple(each for each in self.sends if f"s{each.number}" in items),
            faults=tuple(each for each in self.faults if f"f{each.number}" in items),
        )


def generate(seed: int) -> World:
    """Return the world of a seed."""
    source = Random(f"{seed}/world")
    profile = source.choice(("documented", "documented", "documented", "apache-5.5"))
    brokers = source.choice((1, 1, 1, 2))
    has_disk = brokers == 1 and source.random() < 0.4
    topics = tuple(_topic(source, place) for place in range(source.choice((1, 1, 2))))
    groups = tuple(
        _group(source, topics, place, profile)
        for place in range(source.choice((len(topics), len(topics), len(topics) + 1)))
    )
    producers = tuple(
        MemberPlan(f"p{place}", None, linger=source.choice((None, None, 0.0, 0.05)))
        for place in range(source.choice((1, 1, 2)))
    )
    consumers = tuple(
        _consumer(source, place, groups[place % len(groups)], place % len(groups), len(groups))
        for place in range(max(len(groups), source.randint(1, 4)))
        # A pull consumer reads all queues of its topic.
        if place < len(groups) or groups[place % len(groups)].kind != "pull"
    )
    count = round(20 * 10 ** source.random())
    sends = _sends(source, count, topics, len(producers))
    kinds = list(FAULT_KINDS) if has_disk else [kind for kind in FAULT_KINDS if kind != "power"]
    faults = tuple(
        _fault(source, place, source.choice(kinds)) for place in range(source.choice((0, 1, 2, 3, 4, 5)))
    )
    return World(seed, profile, brokers, has_disk, topics, groups, producers, consumers, tuple(sends), faults)


def _topic(source: Random, place: int) -> TopicPlan:
    kind = source.choice(("NORMAL", "NORMAL", "NORMAL", "FIFO", "FIFO", "DELAY", "TRANSACTION"))
    return TopicPlan(f"topic-{place}", kind, source.choice((1, 2, 4)))


def _group(source: Random, topics: tuple[TopicPlan, ...], place: int, profile: str) -> GroupPlan:
    topic = place % len(topics)
    kinds = ["push", "push", "push", "simple"]
    if topics[topic].type in ("NORMAL", "FIFO") and profile == "documented":
        kinds.append("pull")
    kind = source.choice(kinds)
    return GroupPlan(
        f"group-{place}",
        topic,
        kind,
        ordered=topics[topic].type == "FIFO" and kind == "push" and source.random() < 0.8,
        max_attempts=source.choice((3, 5, 17)),
        steps=source.choice(((1.0, 3.0), (2.0, 10.0), (5.0,))),
        filter=source.choice(("*", "*", "*", "a", "a || b")),
    )


def _consumer(source: Random, place: int, group: GroupPlan, number: int, groups: int) -> MemberPlan:
    is_first = place < groups
    return MemberPlan(
        f"c{place}",
        number,
        begin=0.0 if is_first else source.uniform(0.0, 50.0),
        end=None if is_first or source.random() < 0.5 else source.uniform(55.0, 90.0),
        concurrency=source.choice((1, 2, 8, 20)),
        cache=source.choice((4, 16, 64)),
        batch=source.choice((1, 4, 16, 32)),
        invisible=source.choice((10.0, 15.0, 30.0)),
        keep_alive=source.random() < 0.7,
        auto_commit=source.choice((None, None, 2.0)),
    )


def _sends(source: Random, count: int, topics: tuple[TopicPlan, ...], producers: int) -> list[SendPlan]:
    sends, at = [], SENDING[0]
    bursts = sorted(source.uniform(*SENDING) for _ in range(max(2, count // 8)))
    for number in range(count):
        at = source.choice(bursts) if source.random() < 0.7 else source.uniform(*SENDING)
        topic = source.randrange(len(topics))
        kind = topics[topic].type
        group = source.choice(("x", "y", "z")) if kind == "FIFO" else None
        # A message group has one producer: its order is that of the calls.
        producer = "xyz".index(group) if group else source.randrange(producers)
        sends.append(
            SendPlan(
                number,
                round(at, 3),
                producer % producers,
                topic,
                tag=source.choice(("a", "a", "b", None)),
                message_group=group,
                delay=round(source.uniform(0.5, 20.0), 3) if kind == "DELAY" else None,
                outcome=source.choice(("commit", "commit", "rollback", "commit?", "rollback?"))
                if kind == "TRANSACTION"
                else "",
            )
        )
    return sends


FAULT_KINDS: dict[str, Callable[[Random], tuple[float, float]]] = {
    # Length in seconds, and a value.
    "partition": lambda source: (source.choice((0.5, 2.0, 6.0, 15.0, 40.0)), source.randrange(3)),
    "lose": lambda source: (source.uniform(1.0, 20.0), source.choice((0.1, 0.3, 1.0))),
    "double": lambda source: (source.uniform(1.0, 20.0), source.choice((0.1, 0.5))),
    "slow": lambda source: (source.uniform(1.0, 20.0), source.choice((10.0, 100.0, 500.0))),
    "cut": lambda source: (0.0, 0.0),
    "half-open": lambda source: (0.0, 0.0),
    "crash": lambda source: (source.uniform(0.5, 15.0), 0.0),
    "vanish": lambda source: (source.uniform(0.5, 15.0), 0.0),
    "hang": lambda source: (source.choice((1.0, 5.0, 20.0, 45.0)), 0.0),
    "cancel": lambda source: (source.uniform(0.5, 5.0), 0.0),
    "skew": lambda source: (0.0, source.choice((-3600.0, -5.0, 5.0))),
    "restart": lambda source: (source.choice((0.0, 1.0, 8.0)), 0.0),
    "kill": lambda source: (source.choice((0.0, 1.0, 8.0, 20.0)), 0.0),
    "power": lambda source: (source.choice((0.0, 1.0, 8.0, 20.0)), 0.0),
    "pause": lambda source: (source.choice((1.0, 5.0, 12.0)), 0.0),
    "jump": lambda source: (0.0, source.choice((-30.0, 2.0, 20.0))),
    "streams": lambda source: (0.0, 0.0),
}


def _fault(source: Random, number: int, kind: str) -> FaultPlan:
    seconds, value = FAULT_KINDS[kind](source)
    target = source.choice((-1, *range(6)))
    return FaultPlan(number, kind, round(source.uniform(*FAULTS), 3), round(seconds, 3), target, float(value))


@dataclass(frozen=True, slots=True)
class Work:
    """What a handler does with one delivery."""

    seconds: float
    result: str
    """`ok`, `fail`, `later` (a retry after 3 s) or `dead`."""


def work_of(world: World, group: GroupPlan, number: int, attempt: int) -> Work:
    """Return what a group's handler does with a message at an attempt; some take longer than a lease."""
    source = Random(f"{world.seed}/{group.name}/{number}/{attempt}")
    seconds = source.uniform(0.0, 0.05) if source.random() < 0.8 else source.uniform(0.05, 2.0)
    if source.random() < 0.03 and number < LONG:
        # Consumers of other kinds handle one message at a time, and would not come to an end.
        seconds = source.uniform(20.0, 60.0) if group.kind == "push" else source.uniform(5.0, 15.0)
    chance = source.random()
    if attempt > 2 or chance < 0.85:
        return Work(seconds, "ok")
    return Work(seconds, "fail" if chance < 0.93 else "later" if chance < 0.98 else "dead")
