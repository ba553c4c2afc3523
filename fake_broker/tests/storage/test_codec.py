"""What data files may hold, and how it is read."""

import pickle
import re
from enum import Enum
from random import Random

import pytest
from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.codes import FilterType, MessageType, TopicType
from aiorocketmq_fake.core.values.model import (
    FilterExpression,
    OutgoingMessage,
    PollAnswered,
    PullRequest,
    ReconnectEndpoints,
    TopicConfig,
)
from aiorocketmq_fake.core.values.profiles import DOCUMENTED
from aiorocketmq_fake.edge.storage.codec import dump, dump_state, load, load_state


class Written:
    """An enumeration's member, as Python before 3.11.4 writes it."""

    def __init__(self, kind: type[Enum], name: str) -> None:
        self._of = (kind, name)

    def __reduce__(self) -> tuple[object, ...]:
        return getattr, self._of


def test_members_of_enumerations_are_read_whichever_python_wrote_them() -> None:
    for member in MessageType:
        for written in (member, Written(MessageType, member.name)):
            assert load(pickle.dumps(written)) is member


DOTTED = [
    ("aiorocketmq_fake.core.commands.access", "hmac.digest"),
    ("aiorocketmq_fake.core.broker", "Broker.__init__.__globals__"),
    ("re", "enum.bltns.exec"),
]
BORROWED = [
    ("aiorocketmq_fake.core.commands.access", "hmac"),
    ("aiorocketmq_fake.core.commands.access", "replace"),
]
"""Names in the core's modules that belong to others."""
FUNCTIONS = [("aiorocketmq_fake.core.commands.redelivery", "report_end"), ("collections", "namedtuple")]


@pytest.mark.parametrize(("module", "name"), [*DOTTED, *BORROWED, *FUNCTIONS])
def test_only_classes_on_the_list_are_built(module: str, name: str) -> None:
    written = b"".join(
        (
            pickle.PROTO + b"\x04",
            *(pickle.SHORT_BINUNICODE + bytes([len(text)]) + text.encode() for text in (module, name)),
            pickle.STACK_GLOBAL + pickle.STOP,
        )
    )
    with pytest.raises(pickle.UnpicklingError, match="is not allowed in a data file"):
        load(written)


class Method:
    """A method of a core object, as pickle writes it."""

    def __init__(self, owner: object, name: str) -> None:
        self._of = (owner, name)

    def __reduce__(self) -> tuple[object, ...]:
        return getattr, self._of


@pytest.mark.parametrize("name", ["topic", "unknown", "__class__", "__reduce__"])
def test_only_methods_are_taken_from_core_objects(name: str) -> None:
    message = OutgoingMessage("t", b"x", "m")
    with pytest.raises(pickle.UnpicklingError, match="is not allowed in a data file"):
        load(dump(Method(message, name)))


def test_a_value_with_one_field_is_read_as_it_was_written() -> None:
    value = ReconnectEndpoints("nonce")
    assert load(dump(value)) == value


def test_foreign_enumerations_are_refused() -> None:
    with pytest.raises(pickle.UnpicklingError, match="is not allowed in a data file"):
        load(pickle.dumps(Written(re.RegexFlag, "ASCII")))


def test_a_parked_poll_with_a_filter_is_stored() -> None:
    pulls = [
        FilterExpression("a||b"),
        FilterExpression("a CONTAINS 'x' OR b BETWEEN 1 AND 2", FilterType.SQL),
    ]
    broker = Broker(DOCUMENTED, now=0.0, rng=Random(1))
    broker.create_topic(TopicConfig("t", TopicType.NORMAL, 1, 1), now=0.0)
    for request in pulls:
        broker.pull(PullRequest("c", "g", "t", 0, 0, request, polling=20.0), now=0.0)
    stored = load_state(dump_state(broker, broker.transient()), broker.transient(), Broker)
    stored.send((OutgoingMessage("t", b"x", "m", tag="a", properties={"a": "xy"}),), now=1.0)
    assert sum(isinstance(output, PollAnswered) for output in stored.take_outputs()) == len(pulls)
