"""Generates plans: one seeded random source for each history, so that a history is a function of seed and number."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aiorocketmq_conformance.explore.expressions import SQL
from aiorocketmq_conformance.explore.plan import (
    CLASSIC,
    MESSAGE_GROUPS,
    ConsumerPlan,
    GroupPlan,
    Plan,
    Step,
    TopicPlan,
    Value,
)

# Two of them have the same 32-bit hash, others contain or resemble one another.
TAGS = ("a", "b", "ab", "A", "Aa", "BB", None)
LIMITS = (1, 2, 2, 3, 5, 17)
FILTERS = ("*", "*", "*", "*", "a", "a || b", "ab||A", "Aa", "||a", "b|| ||A||")

_WEIGHTS = {
    "send": 22,
    "receive": 26,
    "ack": 18,
    "change": 7,
    "wait": 10,
    "stale": 5,
    "forward": 2,
    "illegal": 2,
    "lag": 2,
    "settings": 2,
    "subscribe": 1,
    "leave": 1,
    "join": 2,
    "reset": 1,
    "restart": 1,
    "kill": 1,
    "pause": 1,
    "route": 1,
    "assignment": 1,
    "reopen": 1,
    "cancel": 1,
    "pull": 2,
    "trim": 1,
    "limit": 1,
    "more queues": 1,
    "anew": 1,
}
# Each history has one or two themes, as bugs need several steps of a kind.
_THEMES: dict[str, dict[str, int]] = {
    "leases": {"change": 12, "stale": 8, "wait": 8},
    "backlog": {"send": 20, "receive": 14},
    "retries": {"receive": 20, "wait": 14},
    "transactions": {"commit": 10, "rollback": 6, "reopen": 2},
    "delays": {"recall": 6, "wait": 6},
    "priorities": {"send": 16, "receive": 8},
    "sessions": {
        "route": 2,
        "assignment": 3,
        "settings": 6,
        "subscribe": 3,
        "leave": 4,
        "join": 4,
        "reopen": 4,
        "cancel": 3,
    },
    "administration": {
        "reset": 5,
        "restart": 3,
        "kill": 2,
        "pause": 2,
        "lag": 6,
        "limit": 6,
        "more queues": 4,
        "anew": 4,
    },
    "pulls": {"pull": 20, "send": 10},
    "retention": {"trim": 6, "wait": 10},
    "classic protocol": {
        "classic send": 16,
        "classic pull": 20,
        "commit offset": 4,
        "ask offset": 6,
        "ask ends": 3,
        "restart": 1,
        "kill": 1,
    },
    "members": {
        "join members": 10,
        "leave members": 4,
        "ask members": 8,
        "lock": 14,
        "unlock": 5,
        "wait": 6,
    },
    "dead letters": {"forward": 8, "wait": 6, "receive": 8},
}


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a target can do, and how long its histories may take."""

    types: Sequence[str] = ("NORMAL", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY", "LITE")
    kinds: frozenset[str] = frozenset({*_WEIGHTS, *CLASSIC, "commit", "rollback", "recall"})
    selects: bool = True
    """SQL expressions are served."""
    is_virtual: bool = True
    leases: Sequence[float] = (10.0, 15.0, 30.0, 60.0)
    waits: Sequence[float] = (0.5, 1.0, 2.0, 5.0, 10.5, 15.5, 31.0, 61.0)
    sizes: tuple[int, int] = (15, 70)


def generate(seed: int, number: int, abilities: Abilities) -> Plan:
    """Return one plan."""
    source = random.Random(f"{seed}/{number}")
    topics = tuple(_topic(source, abilities) for _ in range(source.choice((1, 1, 2, 3))))
    groups = tuple(_group(source, topics, place) for place in range(source.choice((1, 1, 2, 3))))
    consumers = tuple(
        ConsumerPlan(
            # Every group has a consumer, if there are enough.
            place if place < len(groups) else source.randrange(len(groups)),
            source.random() < 0.3,
            _filter(source, abilities),
            late=place > 0 and source.random() < 0.25,
            names=source.randrange(1, 8),
        )
        for place in range(max(len(groups), source.randint(1, 5)))
    )
    weights = dict(_WEIGHTS)
    themes = [theme for theme in _THEMES if _fits(theme, topics)]
    for theme in source.sample(themes, k=min(len(themes), source.choice((1, 1, 2)))):
        for kind, weight in _THEMES[theme].items():
            weights[kind] = weights.get(kind, 0) + weight
    kinds = [kind for kind in weights if kind in abilities.kinds]
    chosen = source.choices(kinds, [weights[kind] for kind in kinds], k=source.randint(*abilities.sizes))
    steps = [
        Step(place, kind, _VALUES[kind](source, abilities)) for place, kind in enumerate(["send", *chosen])
    ]
    return Plan(seed, number, topics, groups, consumers, tuple(steps))


def _fits(theme: str, topics: Sequence[TopicPlan]) -> bool:
    types = {topic.type for topic in topics}
    needed = {"transactions": "TRANSACTION", "delays": "DELAY", "priorities": "PRIORITY"}.get(theme)
    return needed is None or needed in types


def _topic(source: random.Random, abilities: Abilities) -> TopicPlan:
    type_, queues = source.choice(abilities.types), source.choice((1, 1, 3, 5))
    return TopicPlan(type_, 1 if type_ == "LITE" else queues)


def _group(source: random.Random, topics: Sequence[TopicPlan], place: int) -> GroupPlan:
    topic = source.randrange(len(topics)) if place >= len(topics) else place
    ordered = topics[topic].type == "FIFO" and source.random() < 0.8
    limit = source.choice(LIMITS)
    steps = source.choice(((), (), (1.0, 5.0, 10.0), (3.0, 30.0)))
    is_lite = topics[topic].type == "LITE" and source.random() < 0.8
    late = place > 0 and source.random() < 0.3
    return GroupPlan(topic, ordered, limit, steps, late=late, is_lite=is_lite)


def _filter(source: random.Random, abilities: Abilities) -> str:
    if abilities.selects and source.random() < 0.2:
        return f"{SQL}{source.randrange(1 << 30)}"
    return source.choice(FILTERS)


def _send(source: random.Random, abilities: Abilities) -> dict[str, Value]:
    return {
        "topic": source.randrange(6),
        "producer": source.randrange(2),
        "count": source.choice((1, 1, 1, 1, 2, 3, 5, 16)),
        "tag": source.choice(TAGS),
        "message_group": source.choice(MESSAGE_GROUPS),
        "delay": source.choice((-1.0, 0.5, 1.0, 2.5, 5.0, 12.0)),
        "bare": source.random() < 0.5,
        "recovery": source.choice((None, None, 15.0, 40.0)),
        "priority": source.randrange(8),
        "salt": source.randrange(240),
    }


def _illegal(source: random.Random, abilities: Abilities) -> dict[str, Value]:
    return {
        **_send(source, abilities),
        "place": source.randrange(16),
        "fault": source.choice(("tag", "type", "topic")),
    }


def _receive(source: random.Random, abilities: Abilities) -> dict[str, Value]:
    return {
        "consumer": source.randrange(12),
        "batch": source.choice((1, 1, 2, 3, 5, 16, 32)),
        "invisible": source.choice(abilities.leases),
        "poll": source.choice((5.0, 5.0, 8.0, 20.0) if abilities.is_virtual else (5.0, 5.0, 8.0)),
    }


def _ack(source: random.Random, abilities: Abilities) -> dict[str, Value]:
    return {
        "consumer": source.randrange(12),
        "pick": source.randrange(64),
        "count": source.choice((1, 1, 1, 2, 3, 5, 32)),
        "first_handle": source.random() < 0.3,
    }


def _stale(source: random.Random, abilities: Abilities) -> dict[str, Value]:
    return {
        "consumer": source.randrange(12),
        "pick": source.randrange(64),
        "state": source.choice(("settled", "expired", "replaced", "group", "topic", "garbage")),
        "call": source.choice(("ack", "ack", "mixed", "change", "forward")),
        "place": source.randrange(4),
        "seconds": source.choice((0.0, 10.0, 30.0)),
    }


def _change(source: random.Random, abilities: Abilities) -> dict[str, Value]:
    return {
        "consumer": source.randrange(12),
        "pick": source.randrange(64),
        "seconds": source.choice((0.0, 1.0, 5.0, 5.0, 10.0, 20.0, 45.0, 43_201.0)),
        "suspend": source.random() < 0.15,
    }


def _picked(*names: str) -> Callable[[random.Random, Abilities], dict[str, Value]]:
    return lambda source, abilities: {name: source.randrange(64) for name in names}


_VALUES: dict[str, Callable[[random.Random, Abilities], dict[str, Value]]] = {
    "send": _send,
    "illegal": _illegal,
    "receive": _receive,
    "ack": _ack,
    "stale": _stale,
    "change": _change,
    "wait": lambda source, abilities: {"seconds": source.choice(abilities.waits)},
    "forward": _picked("consumer", "pick"),
    "commit": _picked("pick", "again"),
    "rollback": _picked("pick", "again"),
    "recall": _picked("pick"),
    "lag": _picked("group"),
    "settings": _picked("consumer", "again"),
    "subscribe": lambda source, abilities: {
        "consumer": source.randrange(12),
        "filter": _filter(source, abilities),
        "names": source.randrange(1, 8),
    },
    "leave": lambda source, abilities: {"consumer": source.randrange(12), "crashes": source.random() < 0.4},
    "join": _picked("consumer"),
    "reset": lambda source, abilities: {
        "group": source.randrange(12),
        "to_end": source.random() < 0.5,
        "back": source.choice((None, None, 0.5, 3.0, 12.0, 40.0)),
    },
    "restart": lambda source, abilities: {},
    "kill": lambda source, abilities: {},
    "pause": lambda source, abilities: {"seconds": source.choice((2.0, 5.0, 8.0))},
    "limit": lambda source, abilities: {"group": source.randrange(12), "limit": source.choice(LIMITS)},
    "more queues": _picked("topic", "count"),
    "anew": _picked("group"),
    "route": _picked("topic"),
    "assignment": _picked("consumer"),
    "reopen": _picked("pick", "again"),
    "cancel": _picked("consumer", "pick"),
    "pull": lambda source, abilities: {
        **_picked("consumer", "queue")(source, abilities),
        "back": source.choice((0, 0, 0, 1, 2, 5, 99)),
        "batch": source.choice((1, 2, 3, 32, 40)),
        "poll": source.choice((0.0, 5.0, 20.0)),
        "filter": "*" if source.random() < 0.7 else _filter(source, abilities),
    },
    "classic send": lambda source, abilities: {
        **_send(source, abilities),
        **_picked("client", "queue")(source, abilities),
        "count": source.choice((1, 1, 1, 2, 3, 5)),
    },
    "classic pull": lambda source, abilities: {
        **_picked("client", "topic", "queue")(source, abilities),
        "back": source.choice((0, 0, 0, 1, 2, 5, 99)),
        "batch": source.choice((1, 2, 3, 32, 40)),
        "poll": source.choice((0.0, 0.0, 10.0, 20.0)),
        "filter": "*" if source.random() < 0.7 else _filter(source, abilities),
        "commits": source.random() < 0.3,
    },
    "commit offset": _picked("client", "topic", "queue", "offset"),
    "ask offset": _picked("client", "topic", "queue"),
    "ask ends": _picked("client", "topic", "queue"),
    "join members": _picked("client"),
    "leave members": _picked("client"),
    "ask members": _picked("client"),
    "lock": _picked("client", "topic", "queue", "count"),
    "unlock": _picked("client", "topic", "queue", "count"),
    "trim": lambda source, abilities: {"age": source.choice((1.0, 5.0, 20.0, 60.0))},
}
