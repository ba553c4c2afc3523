"""A long story of one broker, with every kind of event: what operators see is compared with files, line by line.

After an intended change, remove the file: the test writes it again and fails once; review the difference.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from aiorocketmq_fake.core.commands.access import Signature, User
from aiorocketmq_fake.core.values.classic_model import Heartbeat, Membership, SendBack, Subscribed
from aiorocketmq_fake.core.values.codes import (
    ClientType,
    Code,
    LiteAction,
    MessageType,
    OffsetPolicy,
    Refusal,
    Resolution,
    TopicType,
)
from aiorocketmq_fake.core.values.model import (
    ClientSettings,
    EndTransactionRequest,
    GroupConfig,
    LiteSyncRequest,
    OffsetQuery,
    PullRequest,
    StoredMessage,
    Subscription,
    TopicConfig,
)

from fake_broker.tests.core.conftest import START, Desk

FILES = Path(__file__).with_name("stories")


def shown(value: object) -> str:
    """Show a value in one line: messages by their places, times since the start."""
    if isinstance(value, StoredMessage):
        place = f"{value.topic}/{value.queue_id}/{value.offset}@{value.position}"
        extra = f" {value.attempts_before} {value.transaction_id or '-'} {value.origin_topic or '-'}"
        return f"<{place} {value.content.message_id} {value.message_type.name}{extra}>"
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, float) and value >= START:
        return f"+{value - START:.3f}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = (
            f"{one.name}={shown(getattr(value, one.name))}"
            for one in dataclasses.fields(value)
            if getattr(value, one.name) != one.default
        )
        return f"{type(value).__name__}({', '.join(fields)})"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(shown, value))}]"
    return repr(value)


def state_of(desk: Desk) -> Iterator[str]:
    """Yield the state that an operator can query."""
    broker = desk.broker
    for name in ("topics", "groups", "clients", "leases", "offsets", "order_records"):
        for each in getattr(broker, name)():
            yield f"{name}: {shown(each)}"
    yield from (f"half: {shown(each)}" for each in broker.half_messages())
    yield f"totals: {shown(broker.totals())}"
    yield f"retention: {shown(broker.retention())}"
    for topic in broker.topics():
        yield from (f"message: {shown(each)}" for each in broker.messages(topic.config.name))
    yield from (f"dead: {shown(each)}" for each in broker.dead_letters("g"))


def refused(code: Code, act: Any, *arguments: Any, **fields: Any) -> None:
    with pytest.raises(Refusal) as error:
        act(*arguments, **fields)
    assert error.value.code is code


def refuse_everything(desk: Desk) -> None:
    """Have every command refused once: each names itself in an event."""
    broker, now = desk.broker, desk.now
    strange = EndTransactionRequest("p", "x", "none", Resolution.COMMIT, "none", False)
    lite = LiteSyncRequest("c", "g", "t", LiteAction.COMPLETE_ADD, ("a",))
    settings = ClientSettings(ClientType.PRODUCER, topics=("no topic",))
    group, topic = GroupConfig("no group"), TopicConfig("no topic")
    pull = PullRequest("c", "no group", "t", 0, 0)
    calls: list[Callable[[], object]] = [
        lambda: broker.create_topic(topic, now=now),
        lambda: broker.update_topic(TopicConfig("none"), now=now),
        lambda: broker.delete_topic("none", now=now),
        lambda: broker.create_group(group, now=now),
        lambda: broker.update_group(GroupConfig("none", max_attempts=0), now=now),
        lambda: broker.delete_group("none", now=now),
        lambda: broker.remove_user("none", now=now),
        lambda: broker.set_retention(retention=-1.0, disk_used=None, now=now),
        lambda: broker.check_access("Check", "c", Signature(), (), now=now),
        lambda: broker.settings("p2", settings, now=now),
        lambda: broker.heartbeat("nobody", "g", now=now),
        lambda: broker.terminate("nobody", "g", now=now),
        lambda: broker.query_route("none", now=now, client_id="c"),
        lambda: broker.query_assignment("c", "none", "g", now=now),
        lambda: broker.send((), now=now, client_id="p"),
        lambda: broker.recall("t", "no handle", now=now, client_id="p"),
        lambda: broker.end_transaction(strange, now=now),
        lambda: broker.receive(desk.request(group="no group"), now=now),
        desk.ack_all,
        lambda: desk.change("no handle", 1.0),
        lambda: desk.forward("no handle"),
        lambda: broker.sync_lite_subscription(lite, now=now),
        lambda: broker.pull(pull, now=now),
        lambda: broker.update_offset("g", "t", 0, -1, now=now),
        lambda: broker.get_offset("g", "t", 9, now=now),
        lambda: broker.query_offset(OffsetQuery("none", 0, OffsetPolicy.END), now=now),
        lambda: broker.reset_offset("none", "t", OffsetPolicy.END, now=now),
        lambda: broker.reconnect_endpoints("nobody", now=now),
        lambda: broker.print_stack_trace("nobody", now=now),
        lambda: broker.verify_message("nobody", broker.messages("t")[0], now=now),
        lambda: broker.pull_classic(pull, now=now),
        lambda: broker.commit_classic("g", "t", 0, -1, now=now),
        lambda: broker.reset_queue("g", "t", 0, -1, now=now),
        lambda: broker.send_classic((), now=now, client_id="c1"),
        lambda: broker.send_back(SendBack("g", 999_999), now=now, client_id="c1"),
        lambda: broker.end_half(999_999, Resolution.COMMIT, now=now, client_id="c1"),
    ]
    for call in calls:
        with pytest.raises(Refusal):
            call()


def play(desk: Desk) -> Iterator[str]:
    """Run a story that has every kind of event; yield the state in the middle and at the end."""
    broker = desk.broker
    broker.create_topic(TopicConfig("d", TopicType.DELAY, 1, 1), now=desk.now)
    broker.create_topic(TopicConfig("x", TopicType.TRANSACTION, 2, 2), now=desk.now)
    broker.create_topic(TopicConfig("f", TopicType.FIFO, 1, 1), now=desk.now)
    desk.add_group("o", ordered=True, max_attempts=2)
    desk.join("co", "o")
    producer = ClientSettings(ClientType.PRODUCER, topics=("t", "d", "x"))
    broker.settings("p", producer, now=desk.now)
    broker.put_user(User("key", "secret"), now=desk.now)
    broker.remove_user("key", now=desk.now)
    desk.send("m1", "m2", "m3", "m4", tag="a")
    desk.send("other", tag="b")
    desk.wait(1.0)
    first, second, third, _ = desk.receive(4, tag="a")
    assert desk.ack(first) is Code.OK
    desk.ack(first.receipt_handle)
    changed = desk.change(second, 15.0)
    desk.forward(third)
    desk.wait(2.0)
    waiting = desk.park(2, tag="a")
    refused(desk.profile.malformed_handle_code, desk.change, "no handle", 5.0)
    desk.ack(second.receipt_handle)
    for number in range(3):
        desk.send(f"f{number}", topic="f", message_group="one" if number < 2 else "two")
    desk.receive(3, client="co", group="o", topic="f", invisible=10.0)
    renewed = desk.request(1, client="c", group="g", auto_renew=True)
    desk.send("renewed", tag="a")
    broker.receive(renewed, now=desk.now)
    delayed = desk.send("d1", "d2", topic="d", delivery_timestamp=desk.now + 20.0)
    if desk.profile.recall_enabled:
        broker.recall("d", delayed.recall_handle, now=desk.now, client_id="p")
    for number in range(4):
        desk.send(f"x{number}", topic="x", message_type=MessageType.TRANSACTION)
    for number, resolution in enumerate(Resolution):
        request = EndTransactionRequest("p", "x", f"x{number}", resolution, f"x{number}", False)
        broker.end_transaction(request, now=desk.now)
    yield from state_of(desk)
    desk.wait(12.0)
    broker.end_poll(waiting, now=desk.now)
    desk.change(changed, 0.0)
    desk.wait(60.0)
    desk.receive(8)
    again = desk.receive(8, client="co", group="o", topic="f")
    broker.release_deliveries(tuple(each.receipt_handle for each in again), now=desk.now)
    broker.reset_offset("g", "t", OffsetPolicy.BEGINNING, now=desk.now)
    broker.update_offset("g", "x", 1, 0, now=desk.now)
    yield from state_of(desk)
    for channel in (1, 2):
        member = Membership("classic", (Subscribed("t", "a", version=channel),))
        beat = Heartbeat(f"c{channel}", (member,), ("producers",), "PYTHON", 477, f"127.0.0.1:{channel}")
        broker.beat(channel, beat, now=desk.now)
    yield f"members: {shown(broker.members('classic'))}"
    yield f"members: {shown(broker.members('g'))}"
    yield f"producers: {shown(broker.producers('producers'))}"
    broker.unregister(2, "c2", "classic", "producers", now=desk.now)
    broker.lock_queues("g", "c1", (("t", 0),), now=desk.now)
    broker.unlock_queues("g", "c1", (("t", 0),), now=desk.now)
    position = broker.messages("t")[-1].position
    broker.send_back(SendBack("g", position, delay_level=1), now=desk.now, client_id="c1")
    desk.wait(11.0)
    if desk.profile.name == "documented":
        broker.create_topic(TopicConfig("l", TopicType.LITE, 1, 1, lite_expiration=600.0), now=desk.now)
        broker.create_group(GroupConfig("lg", lite_bind_topic="l"), now=desk.now)
        lite = ClientSettings(ClientType.LITE_PUSH_CONSUMER, subscription=Subscription("lg"))
        broker.settings("lc", lite, now=desk.now)
        sync = LiteSyncRequest("lc", "lg", "l", LiteAction.COMPLETE_ADD, ("ann", "bob"))
        broker.sync_lite_subscription(sync, now=desk.now)
        desk.send("lite", topic="l", lite_topic="ann")
        desk.receive(1, client="lc", group="lg", topic="l")
    refuse_everything(desk)
    desk.join("late")
    desk.send("lost", topic="t")
    desk.receive(32, client="late", invisible=650.0)
    broker.set_retention(retention=60.0, disk_used=0.8, now=desk.now)
    desk.wait(700.0)
    broker.delete_expired(now=desk.now)
    broker.terminate("c", "g", now=desk.now)
    desk.wait(200.0, heartbeats=False)
    broker.delete_group("o", now=desk.now)
    broker.delete_topic("t", now=desk.now)
    yield from state_of(desk)
    yield f"outputs: {shown(broker.take_outputs())}"


def check(name: str, lines: Iterable[str]) -> None:
    """Compare lines with those of a file."""
    file, text = FILES / name, "\n".join(lines) + "\n"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        pytest.fail(f"{name} is new: review it")
    assert text.splitlines() == file.read_text(encoding="utf-8").splitlines()
