"""Fixtures of the tests of storage: histories of commands for a core, drawn at random, and a deep comparison."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from types import MethodType
from typing import Any

import pytest
from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.commands.access import User
from aiorocketmq_fake.core.values.classic_model import Classic, Heartbeat, Membership, SendBack, Subscribed
from aiorocketmq_fake.core.values.codes import (
    ClientType,
    FilterType,
    LiteAction,
    MessageType,
    OffsetPolicy,
    Refusal,
    Resolution,
    TopicType,
)
from aiorocketmq_fake.core.values.model import (
    AckEntry,
    AckRequest,
    ChangeRequest,
    ClientSettings,
    EndTransactionRequest,
    FilterExpression,
    ForwardRequest,
    GroupConfig,
    LiteSyncRequest,
    OutgoingMessage,
    Parked,
    PollAnswered,
    PullRequest,
    Received,
    ReceiveRequest,
    Subscription,
    TopicConfig,
)
from aiorocketmq_fake.edge.storage.pages import PagedEntries

Step = tuple[str, int, int, float]
"""A kind of command, two numbers that choose its arguments, and the seconds that pass before it."""

TOPICS = ("normal", "fifo", "delay", "tx")
FILTERS = (FilterExpression("a"), FilterExpression(), FilterExpression("a IS NULL", FilterType.SQL))
GROUPS = ("shared", "ordered")


@dataclass
class History:
    """Does steps on a core and remembers what the later ones need; `note` is told every command."""

    core: Broker
    note: Callable[[str, tuple[Any, ...], dict[str, Any], float], object]
    now: float = 1_000.0
    handles: list[tuple[str, str, str, str]] = field(default_factory=list)
    polls: list[int] = field(default_factory=list)
    recalls: list[str] = field(default_factory=list)
    transactions: list[str] = field(default_factory=list)
    count: int = 0

    def run(self, name: str, *arguments: Any, **keywords: Any) -> Any:
        """Do one command; what it was is noted whatever came of it."""
        answer = None
        with suppress(Refusal):
            answer = getattr(self.core, name)(*arguments, now=self.now, **keywords)
        self.note(name, arguments, keywords, self.now)
        self.core.take_events()
        for output in self.core.take_outputs():
            if isinstance(output, PollAnswered) and isinstance(output.result, Received):
                self.hold(output.result)
        return answer

    def hold(self, received: Received) -> None:
        for delivery in received.deliveries:
            content = delivery.message.content
            group = "ordered" if " 999 " in f" {delivery.receipt_handle} " else "shared"
            self.handles.append((group, content.topic, delivery.receipt_handle, content.message_id))

    def begin(self) -> None:
        kinds = (TopicType.NORMAL, TopicType.FIFO, TopicType.DELAY, TopicType.TRANSACTION)
        for name, kind in zip(TOPICS, kinds, strict=True):
            self.run("create_topic", TopicConfig(name, kind, 2, 2))
        for name in GROUPS:
            self.run("create_group", GroupConfig(name, ordered=name == "ordered", max_attempts=3))
        self.run("create_topic", TopicConfig("lite", TopicType.LITE, 2, 2))
        self.run("create_group", GroupConfig("light", lite_bind_topic="lite"))
        light = ClientSettings(ClientType.LITE_PUSH_CONSUMER, subscription=Subscription("light"))
        self.run("settings", "lite-1", light)
        self.join()

    def join(self) -> None:
        for group in GROUPS:
            for number in (1, 2):
                client = ClientSettings(ClientType.SIMPLE_CONSUMER, subscription=Subscription(group))
                self.run("settings", f"{group}-{number}", client)

    def do(self, step: Step) -> None:
        kind, first, second, seconds = step
        self.now += seconds
        getattr(self, f"do_{kind}")(first, second)

    # The kinds of commands

    def do_send(self, first: int, second: int) -> None:
        self.count += 1
        topic = TOPICS[first % len(TOPICS)]
        more: dict[str, Any] = {
            "tag": "ab"[second % 2],
            "properties": {"n": str(second)} if second % 3 else {},
        }
        if topic == "fifo":
            more["message_group"] = "ABC"[second % 3]
        if topic == "delay":
            more["delivery_timestamp"] = self.now + second % 30
        if topic == "tx":
            more |= {"message_type": MessageType.TRANSACTION, "recovery_duration": 5.0 + second % 20}
        message = OutgoingMessage(topic, b"x" * (1 + second), f"m{self.count}", **more)
        outcomes = self.run("send", (message,), client_id="producer")
        for outcome in outcomes or ():
            if outcome.recall_handle:
                self.recalls.append(outcome.recall_handle)
            if topic == "tx":
                self.transactions.append(outcome.transaction_id)

    def do_receive(self, first: int, second: int) -> None:
        group = GROUPS[first % 2]
        request = ReceiveRequest(
            f"{group}-{1 + second % 2}",
            group,
            TOPICS[second % len(TOPICS)],
            filter=FILTERS[first % 3],
            batch_size=1 + second % 4,
            invisible=10.0 + second,
            auto_renew=first % 5 == 0,
            polling=5.0,
            remaining_deadline=30.0,
            attempt_id="x" if first % 7 == 0 else "",
        )
        answer = self.run("receive", request)
        if isinstance(answer, Parked):
            self.polls.append(answer.poll_id)
        elif answer is not None:
            self.hold(answer)

    def do_pull(self, first: int, second: int) -> None:
        request = PullRequest("shared-1", "shared", TOPICS[first % 4], second % 2, first, polling=5.0)
        answer = self.run("pull", request)
        if isinstance(answer, Parked):
            self.polls.append(answer.poll_id)

    def do_settle(self, first: int, second: int) -> None:
        if not self.handles:
            return
        group, topic, handle, message_id = self.handles[first % len(self.handles)]
        client = f"{group}-1"
        match second % 3:
            case 0:
                change = ChangeRequest(
                    client, group, topic, handle, float(second), message_id, first % 2 == 0
                )
                new = self.run("change_invisible", change)
                if new:
                    self.handles.append((group, topic, new, message_id))
            case 1:
                self.run(
                    "forward_to_dead_letter_queue", ForwardRequest(client, group, topic, handle, message_id)
                )
            case _:
                self.run("ack", AckRequest(client, group, topic, (AckEntry(message_id, handle),)))

    def do_poll(self, first: int, second: int) -> None:
        if self.polls:
            name = ("cancel_poll", "end_poll")[second % 2]
            self.run(name, self.polls.pop(first % len(self.polls)))

    def do_give_back(self, first: int, second: int) -> None:
        if self.handles:
            self.run("release_deliveries", (self.handles[first % len(self.handles)][2],))

    def do_transaction(self, first: int, second: int) -> None:
        if self.transactions:
            transaction = self.transactions[first % len(self.transactions)]
            resolution = tuple(Resolution)[second % len(Resolution)]
            self.run("end_transaction", EndTransactionRequest("producer", "tx", transaction, resolution))

    def do_recall(self, first: int, second: int) -> None:
        if self.recalls:
            # Both protocols recall.
            command = "recall" if second % 2 else "recall_classic"
            self.run(command, "delay", self.recalls[first % len(self.recalls)], client_id="producer")

    def do_offset(self, first: int, second: int) -> None:
        group, topic = GROUPS[first % 2], TOPICS[second % 4]
        if first % 3:
            self.run("update_offset", group, topic, first % 2, second)
        else:
            self.run("reset_offset", group, topic, (OffsetPolicy.BEGINNING, OffsetPolicy.END)[second % 2])

    def do_client(self, first: int, second: int) -> None:
        group = GROUPS[first % 2]
        match second % 4:
            case 0:
                self.run("terminate", f"{group}-2", group)
            case 1:
                self.run("keep_alive", f"{group}-1")
            case 2:
                self.run("heartbeat", f"{group}-1", group)
            case _:
                self.join()

    def do_leap(self, first: int, second: int) -> None:
        self.now += float(first * second)
        self.run("leap")

    def do_catalogue(self, first: int, second: int) -> None:
        name = TOPICS[first % 4]
        kind = (TopicType.NORMAL, TopicType.FIFO, TopicType.DELAY, TopicType.TRANSACTION)[first % 4]
        match second % 5:
            case 0:
                self.run("delete_topic", name)
            case 1:
                self.run("update_topic", TopicConfig(name, kind, 1 + first % 3, 1 + first % 3))
            case 2:
                self.run("delete_group", GROUPS[first % 2])
            case 3:
                self.run(
                    "create_group", GroupConfig(GROUPS[first % 2], ordered=first % 2 == 1, max_attempts=3)
                )
            case _:
                self.run("create_topic", TopicConfig(name, kind, 2, 2))

    def do_keeping(self, first: int, second: int) -> None:
        if second % 2:
            self.run("set_retention", retention=5.0 + first, disk_used=(None, 0.5, 0.95)[first % 3])
        else:
            self.run("delete_expired")

    def do_order(self, first: int, second: int) -> None:
        client = f"{GROUPS[first % 2]}-{1 + first % 2}"
        match second % 4:
            case 0:
                self.run("lose_stream", client)
            case 1:
                self.run("print_stack_trace", client)
            case 2:
                self.run("reconnect_endpoints", client)
            case _:
                for message in self.core.messages("normal")[:1]:
                    self.run("verify_message", client, message)

    def do_admission(self, first: int, second: int) -> None:
        match second % 4:
            case 0:
                self.run("limit_rate", "SendMessage", (None, 0.5, 2.0)[first % 3])
            case 1:
                self.run("put_user", User("key", "secret", publish=("n*",)))
            case _:
                self.run("remove_user", "key")

    def do_lite(self, first: int, second: int) -> None:
        names = tuple("abc"[: 1 + first % 3])
        action = tuple(LiteAction)[second % len(LiteAction)]
        if second % 3:
            self.run(
                "sync_lite_subscription",
                LiteSyncRequest("lite-1", "light", "lite", action, names),
            )
        else:
            self.count += 1
            message = OutgoingMessage("lite", b"x", f"m{self.count}", lite_topic="abc"[first % 3])
            self.run("send", (message,), client_id="producer")

    def do_member(self, first: int, second: int) -> None:
        channel, group = first % 3, GROUPS[second % 2]
        subscriptions = tuple(Subscribed(topic, "a", version=second) for topic in TOPICS[: 1 + first % 3])
        match second % 5:
            case 0:
                self.run("close_channel", channel)
            case 1:
                self.run("unregister", channel, f"remoting-{channel}", group, "producers")
            case 2:
                self.run("lock_queues", group, f"remoting-{channel}", (("normal", 0), ("fifo", first % 2)))
            case 3:
                self.run("unlock_queues", group, f"remoting-{channel}", (("normal", 0),))
            case _:
                beat = Heartbeat(f"remoting-{channel}", (Membership(group, subscriptions),), ("producers",))
                self.run("beat", channel, beat)

    def do_remoting(self, first: int, second: int) -> None:
        self.count += 1
        match second % 6:
            case 4:
                self.run("reset_queue", GROUPS[first % 2], TOPICS[first % 4], 0, first)
            case 5:
                self.run("commit_classic", GROUPS[first % 2], TOPICS[first % 4], 0, first)
            case 0:
                self.run("send_back", SendBack(GROUPS[first % 2], first, second % 3 - 1, origin_id="o"))
            case 1:
                self.run("end_half", first % 5, tuple(Resolution)[second % 3], client_id="remoting-1")
            case 2:
                pull = PullRequest("remoting-1", "shared", TOPICS[first % 4], 0, first, classic=True)
                self.run("pull_classic", pull, commit=second)
            case _:
                kind = MessageType.TRANSACTION if first % 3 else MessageType.UNSPECIFIED
                properties = {"PGROUP": "producers"}
                classic = Classic(first % 3, delay=(None, 7.0)[second % 2], properties=properties)
                message = OutgoingMessage(
                    TOPICS[first % 4], b"x", f"m{self.count}", message_type=kind, classic=classic
                )
                self.run("send_classic", (message,), client_id="remoting-1", new_queues=2)

    def do_update_group(self, first: int, second: int) -> None:
        group = GROUPS[first % 2]
        self.run("update_group", GroupConfig(group, ordered=second % 4 == 0, max_attempts=1 + second % 5))

    def do_restart(self, first: int, second: int) -> None:
        self.run("restart")
        self.polls.clear()
        self.join()


KINDS = tuple(name.removeprefix("do_") for name in vars(History) if name.startswith("do_"))


@dataclass
class Comparison:
    """Walks through two object graphs side by side and names the first place where they differ."""

    pairs: dict[int, int] = field(default_factory=dict)

    def difference(self, ours: Any, theirs: Any) -> str | None:
        queue: deque[tuple[str, Any, Any]] = deque([("core", ours, theirs)])
        keep = []
        while queue:
            place, one, other = queue.popleft()
            if self.pairs.get(id(one)) == id(other):
                continue
            self.pairs[id(one)] = id(other)
            keep.append((one, other))
            text = self.step(place, one, other, queue)
            if text is not None:
                return text
        return None

    def step(self, place: str, one: Any, other: Any, queue: deque[tuple[str, Any, Any]]) -> str | None:
        one, other = (list(item) if isinstance(item, PagedEntries) else item for item in (one, other))
        if type(one) is not type(other):
            return f"{place}: a {type(one).__name__} became a {type(other).__name__}"
        if isinstance(one, (int, float, str, bytes, Enum, type(None))):
            return None if one == other else f"{place}: {one!r} became {other!r}"
        if isinstance(one, random.Random):
            return None if one.getstate() == other.getstate() else f"{place}: another state of chance"
        if isinstance(one, MethodType):
            return self.children(place, [("", one.__self__, other.__self__)], queue)
        if isinstance(one, (list, tuple, deque)):
            if len(one) != len(other):
                return f"{place}: {len(one)} items became {len(other)}"
            items = [(f"[{index}]", *pair) for index, pair in enumerate(zip(one, other, strict=True))]
            return self.children(place, items, queue)
        if isinstance(one, (set, frozenset)):
            plain = all(isinstance(item, (int, str)) for item in one)
            same = one == other if plain else len(one) == len(other)
            return None if same else f"{place}: another set"
        if isinstance(one, Mapping):
            if list(one) != list(other):
                return f"{place}: keys {list(one)} became {list(other)}"
            return self.children(place, [(f"[{key!r}]", one[key], other[key]) for key in one], queue)
        if callable(one):
            return None
        return self.children(place, [(f".{name}", a, b) for name, a, b in attributes(one, other)], queue)

    def children(
        self, place: str, items: list[tuple[str, Any, Any]], queue: deque[tuple[str, Any, Any]]
    ) -> str | None:
        queue.extend((place + name, a, b) for name, a, b in items)
        return None


def attributes(one: Any, other: Any) -> Iterator[tuple[str, Any, Any]]:
    names = set(getattr(one, "__dict__", ()))
    for kind in type(one).__mro__:
        slots = getattr(kind, "__slots__", ())
        names.update((slots,) if isinstance(slots, str) else slots)
    missing = object()
    for name in sorted(names - {"__weakref__", "__dict__", "new_entries", "_new_entries"}):
        yield name, getattr(one, name, missing), getattr(other, name, missing)


@pytest.fixture
def difference() -> Callable[[Any, Any], str | None]:
    """Compare two cores down to their private parts; None where they are equal, else the first difference."""
    return lambda ours, theirs: Comparison().difference(ours, theirs)


@pytest.fixture
def history() -> type[History]:
    return History


@pytest.fixture
def kinds() -> tuple[str, ...]:
    return KINDS
