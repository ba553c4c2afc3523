"""Events are made in a way of their own; to those who watch them they are frozen dataclasses like any other."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, fields, replace

import pytest
from aiorocketmq import hooks
from aiorocketmq.hooks import AckEvent, ClientIdentity, CommitEvent, Event, Phase, Role, SettleEvent
from aiorocketmq.message import MessageQueue, ReceivedMessage

CLIENT = ClientIdentity("c@1", Role.PUSH, "billing")
QUEUE = MessageQueue("orders", "broker-a", 0)
MESSAGE = ReceivedMessage(topic="orders", body=b"1", message_id="M1", queue=QUEUE, offset=7)
COMMIT = CommitEvent(client=CLIENT, queue=QUEUE, offset=7)


def test_every_event_is_made_with_all_that_was_given() -> None:
    ack = AckEvent(client=CLIENT, phase=Phase.OK, message=MESSAGE, delivery="first", handle="newest")
    assert type(ack) is AckEvent
    assert isinstance(ack, SettleEvent)
    assert (ack.client, ack.phase, ack.operation, ack.error) == (CLIENT, Phase.OK, None, None)
    assert (ack.message, ack.delivery, ack.handle) == (MESSAGE, "first", "newest")


def test_no_hook_changes_an_event() -> None:
    with pytest.raises(FrozenInstanceError):
        COMMIT.offset = 8  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del COMMIT.client
    assert not hasattr(COMMIT, "__dict__")


def test_copies_are_equal_and_changed_copies_are_not() -> None:
    assert copy.copy(COMMIT) == pickle.loads(pickle.dumps(COMMIT)) == COMMIT
    assert len({COMMIT, copy.copy(COMMIT)}) == 1
    assert replace(COMMIT, offset=8) != COMMIT
    assert "offset=7" in repr(COMMIT)


def test_what_is_missing_or_unknown_is_named() -> None:
    with pytest.raises(TypeError, match=r"CommitEvent.*'offset'"):
        CommitEvent(client=CLIENT, queue=QUEUE)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="position"):
        CommitEvent(client=CLIENT, queue=QUEUE, offset=7, position=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("name", [name for name in vars(hooks) if name.endswith("Event")])
def test_all_kinds_of_events_have_the_fields_of_all_events(name: str) -> None:
    kind = getattr(hooks, name)
    assert issubclass(kind, Event)
    assert [field.name for field in fields(kind)][:4] == ["client", "phase", "operation", "error"]
