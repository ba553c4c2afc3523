"""The simulated broker: messages stored one after the other, and their deliveries to each group."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from aiorocketmq_audit.generator.columns import NONE, Bools, Columns, Ints
from aiorocketmq_audit.generator.histories import (
    CRASHED,
    FORGOTTEN,
    TICK_US,
    UNSEEN,
    Histories,
    histories,
    one_after_the_other,
)
from aiorocketmq_audit.generator.shape import Shape

START_US = 1_770_000_000_000_000
"""The server's time at which every generated recording begins."""

LEAD_US = 40_000_000
"""The longest time between the send of a message and its storage in a readable queue (delays)."""

ORDERS, SHIPMENTS, REMINDERS = range(3)
TOPICS = ("orders", "shipments", "reminders")
TAGS = ("red", "green", "blue")
PICKY, PICKED = 1, ("red", "green")
"""The index of the group with a filter, and its tags."""

STORED, UNCONFIRMED, NOT_STORED, REFUSED = range(4)
"""Outcomes of a send; UNCONFIRMED and NOT_STORED have lost answers."""

_LARGEST_RATE = 2_000.0
_MOST_BUSY = 0.6


@dataclass(slots=True)
class World:
    """State that is carried from one block of messages to the next."""

    shape: Shape
    chance: np.random.Generator
    now_us: int = START_US + LEAD_US
    messages: int = 0
    deliveries: int = 0
    answers: int = 0
    strays: int = 0
    """Clients that crashed on their first message."""
    crashes: int = 0
    restarts: int = 0
    """Number of remaining restarts."""
    calm_us: int = START_US
    """From here on no restart exempts findings."""
    offsets: Ints = field(init=False)
    busy: Ints = field(init=False)
    """By ordered group and message group: the end of the last message, in ticks."""
    rate: float = field(init=False)
    """Messages per second: as many as the ordered groups can process."""

    def __post_init__(self) -> None:
        shape = self.shape
        self.crashes, self.restarts = shape.crashes, shape.restarts
        self.offsets = np.zeros(len(TOPICS) * shape.brokers * shape.queues, np.int64)
        self.busy = np.zeros((max(1, shape.ordered_groups), shape.message_groups), np.int64)
        trial = np.random.default_rng(1)
        none = np.zeros(0, np.int64)
        dead = trial.random(4_000) < shape.dead
        drawn = histories(trial, shape, dead, ordered=True, crashes=none, restarts=none)
        seconds = float(drawn.length.mean()) * TICK_US / 1e6
        busiest = max(shape.hot, 3 * (shape.ordered_share - shape.hot) / shape.message_groups)
        has_order = shape.ordered_groups and busiest > 0
        self.rate = min(_LARGEST_RATE, _MOST_BUSY / (busiest * seconds)) if has_order else _LARGEST_RATE

    @property
    def all_groups(self) -> int:
        """Number of groups; normal ones have the lower indices."""
        return self.shape.groups + self.shape.ordered_groups


@dataclass(frozen=True, slots=True)
class Block:
    """Some messages and all their deliveries; `attempts` has a row per delivery, `answers` one per receive."""

    messages: Columns
    attempts: Columns
    answers: Columns


def next_block(world: World, count: int) -> Block:
    """Store and deliver `count` messages; advances the simulated clock."""
    messages = _messages(world, count)
    parts = [_attempts(world, messages, group) for group in range(world.all_groups)]
    attempts = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    attempts["delivery"] = world.deliveries + np.arange(len(attempts["message"]))
    world.deliveries += len(attempts["message"])
    return Block(messages, attempts, _answers(world, messages, attempts))


def _messages(world: World, count: int) -> Columns:
    shape, chance = world.shape, world.chance
    store = world.now_us + np.cumsum(chance.exponential(1e6 / world.rate, count).astype(np.int64) + 1)
    world.now_us = int(store[-1])
    kind = chance.random(count)
    is_ordered = kind < shape.ordered_share
    is_delayed = ~is_ordered & (kind < shape.ordered_share + (1 - shape.ordered_share) * shape.delayed)
    lane = np.where(
        kind < shape.hot, 0, chance.integers(min(1, shape.message_groups - 1), shape.message_groups, count)
    )
    lane = np.where(is_ordered, lane, NONE)
    spread = chance.integers(0, shape.brokers * shape.queues, count)
    place = np.where(is_ordered, lane * 7919 % (shape.brokers * shape.queues), spread)
    topic = np.where(is_ordered, SHIPMENTS, np.where(is_delayed, REMINDERS, ORDERS))
    ended = chance.random(count)
    outcome = np.select(
        [ended < shape.refused, ended < shape.refused + shape.lost / 2, ended < shape.refused + shape.lost],
        [REFUSED, NOT_STORED, UNCONFIRMED],
        STORED,
    )
    delay = 1_000_000 * chance.integers(1, LEAD_US // 1_000_000 - 5, count)
    messages = {
        "message": world.messages + np.arange(count),
        "store": store,
        "due": np.where(is_delayed, store, NONE),
        "sent": np.where(is_delayed, store - delay, store),
        "topic": topic,
        "broker": place // shape.queues,
        "queue": place % shape.queues,
        "message_group": lane,
        "tag": chance.integers(0, len(TAGS), count),
        "producer": chance.integers(0, shape.producers, count),
        "outcome": outcome,
    }
    messages["offset"] = _offsets(world, topic * shape.brokers * shape.queues + place, outcome <= UNCONFIRMED)
    world.messages += count
    return messages


def _offsets(world: World, place: Ints, is_stored: Bools) -> Ints:
    """Return the offsets of stored messages, increasing in each queue."""
    offset = np.full(len(place), NONE, np.int64)
    which = np.flatnonzero(is_stored)
    which = which[np.argsort(place[which], kind="stable")]
    queues, first, counts = np.unique(place[which], return_index=True, return_counts=True)
    within = np.arange(len(which)) - np.repeat(first, counts)
    offset[which] = within + np.repeat(world.offsets[queues], counts)
    world.offsets[queues] += counts
    return offset


def _attempts(world: World, messages: Columns, group: int) -> Columns:
    shape, chance = world.shape, world.chance
    ordered = group >= shape.groups
    is_selected = messages["outcome"] <= UNCONFIRMED
    if ordered:
        is_selected = is_selected & (messages["topic"] == SHIPMENTS)
    if group == PICKY and not ordered:
        is_selected = is_selected & (messages["tag"] < len(PICKED))
    mine = np.flatnonzero(is_selected)
    dead = (chance.random(len(messages["store"])) < shape.dead)[mine]
    drawn = histories(
        chance,
        shape,
        dead,
        ordered=ordered,
        crashes=_some(world, "crashes", mine),
        restarts=_some(world, "restarts", mine),
    )
    ready = messages["store"][mine] // TICK_US + 1 + chance.integers(1, 4, len(mine))
    if ordered:
        lane = messages["message_group"][mine]
        ready = one_after_the_other(ready, drawn.length, lane, world.busy[group - shape.groups])
    return _placed(world, drawn, mine, ready, messages["message_group"], group)


def _some(world: World, what: str, mine: Ints) -> Ints:
    """Draw at most one crash or restart for each group and block, which spreads them over the recording."""
    left = getattr(world, what)
    if not left or not len(mine):
        return np.zeros(0, np.int64)
    setattr(world, what, left - 1)
    half = len(mine) // 2
    # Crashes are drawn from the first half, lost acks from the second: never the same message.
    return (
        world.chance.integers(0, half + 1, 1)
        if what == "crashes"
        else world.chance.integers(half, len(mine), 1)
    )


def _placed(world: World, drawn: Histories, mine: Ints, ready: Ints, lanes: Ints, group: int) -> Columns:
    shape, chance = world.shape, world.chance
    message = mine[drawn.history]
    consumer = chance.integers(0, shape.consumers, len(message))
    if group >= shape.groups:
        # Message groups mostly stay with one consumer.
        stays = chance.random(len(message)) < 0.9
        consumer = np.where(stays, lanes[message] % shape.consumers, consumer)
    client = group * shape.consumers + consumer
    is_crashed = drawn.outcome == CRASHED
    count = int(is_crashed.sum())
    stray = np.full(len(message), NONE, np.int64)
    stray[is_crashed] = world.strays + np.arange(count)
    world.strays += count
    forgotten = (ready[drawn.history] + drawn.begin + drawn.work)[drawn.outcome == FORGOTTEN]
    world.calm_us = max(world.calm_us, int(forgotten.max(initial=0)) * TICK_US + 10_000_000)
    return {
        "message": message,
        "group": np.full(len(message), group),
        "client": client,
        "stray": stray,
        "attempt": drawn.number,
        "tick": ready[drawn.history] + drawn.begin,
        "work": drawn.work,
        "outcome": drawn.outcome,
        "wait": drawn.wait,
    }


def _answers(world: World, messages: Columns, attempts: Columns) -> Columns:
    """Combine deliveries of one client, topic and tick into one answer, and draw the time of its poll."""
    topic = messages["topic"][attempts["message"]]
    asker = (
        np.where(attempts["stray"] == NONE, attempts["client"], 4096 + attempts["stray"]) * len(TOPICS)
        + topic
    )
    alone = attempts["outcome"] == UNSEEN
    key = (asker << 40) | (attempts["tick"] - START_US // TICK_US)
    key[alone] = -1 - np.arange(int(alone.sum()))
    unique, first, answer = np.unique(key, return_index=True, return_inverse=True)
    attempts["answer"] = answer
    order = np.lexsort((attempts["delivery"], answer))
    begins = np.r_[True, answer[order][1:] != answer[order][:-1]] if len(order) else np.zeros(0, bool)
    position = np.empty(len(order), np.int64)
    position[order] = np.arange(len(order)) - np.flatnonzero(begins)[np.cumsum(begins) - 1]
    attempts["position"] = position
    count = len(unique)
    at = attempts["tick"][first] * TICK_US
    # A consumer polls again as soon as it was answered; an empty answer arrives after 15 seconds at the latest.
    polled_at = at - world.chance.integers(2_000, 400_000, count)
    same = np.r_[False, (unique[1:] >> 40) == (unique[:-1] >> 40)] & (unique >= 0)
    before = np.r_[0, at[:-1]] + 2_000
    polled_at = np.where(same, np.maximum(before, at - 15_000_000), polled_at)
    answers = {
        "number": world.answers + np.arange(count),
        "at": at,
        "asked": polled_at,
        "seen": at + world.chance.integers(300, 1_900, count),
        "client": attempts["client"][first],
        "stray": attempts["stray"][first],
        "group": attempts["group"][first],
        "topic": topic[first],
        "unseen": alone[first].astype(np.int64),
        "size": np.bincount(answer, minlength=count),
    }
    world.answers += count
    return answers
