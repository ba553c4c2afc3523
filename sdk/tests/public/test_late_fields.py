"""Fields that handlers rarely look at are read from the wire when they are first asked for."""

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from aiorocketmq._core.endpoint import parse_endpoint
from aiorocketmq._core.remoting.properties import write_properties
from aiorocketmq._core.remoting.records import Record, masked_crc
from aiorocketmq._remoting.messages import received
from aiorocketmq._session import conversion
from aiorocketmq.message import MessageQueue, MessageType, ReceivedMessage
from aiorocketmq.wire import messages as pb

HERE = parse_endpoint("127.0.0.1:8081")


def arrived(size: int = 1, **system: object) -> ReceivedMessage:
    message = pb.Message(topic=pb.Resource(name="orders"), body=b"x" * size, user_properties={"a": "b"})
    for name, value in {"message_id": "m1", "queue_id": 3, "queue_offset": 7, **system}.items():
        setattr(message.system_properties, name, value)
    return conversion.message_from_wire(message, endpoint=HERE, broker="broker-a", group="billing", aside=[])


def test_a_late_field_has_the_value_that_travelled() -> None:
    message = arrived(tag="paid", born_host="h", message_type=pb.MessageType.FIFO, priority=4)
    assert message._rest is not None
    assert (message.tag, message.born_host, message.priority) == ("paid", "h", 4)
    assert message.properties == message.raw_properties == {"a": "b"}
    assert message.message_type is MessageType.FIFO
    assert (message.keys, message.trace_context, message.deliver_at, message.stored_at) == (
        (),
        None,
        None,
        None,
    )
    assert message._rest is None


def test_what_settling_needs_is_there_at_once() -> None:
    message = arrived(lite_topic="l1", message_group="g1")
    assert (message.lite_topic, message.message_group, message.endpoint) == ("l1", "g1", "127.0.0.1:8081")
    assert (message.queue.broker, message.queue.id, message.offset, message.is_settled) == (
        "broker-a",
        3,
        7,
        True,
    )
    assert message._rest is not None


def test_a_large_body_is_not_kept_twice() -> None:
    assert arrived(4096)._rest is not None
    assert arrived(4097)._rest is None
    assert arrived(4097, tag="paid").tag == "paid"


@pytest.mark.parametrize("name", ["nothing", "_nothing"])
def test_a_field_that_does_not_exist_is_an_attribute_error(name: str) -> None:
    for message in (arrived(), arrived(5000)):
        with pytest.raises(AttributeError, match=f"'ReceivedMessage' object has no attribute '{name}'"):
            getattr(message, name)


@pytest.fixture
def busy_threads() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def arrived_by_pull() -> ReceivedMessage:
    record = Record(3, 7, "orders", b"x", write_properties({"TAGS": "paid"}), crc=masked_crc(b"x"))
    return received(record, MessageQueue("orders", "broker-a", 3), "billing", 1000)[0]


@pytest.mark.parametrize("arrive", [partial(arrived, tag="paid"), arrived_by_pull])
@pytest.mark.usefixtures("busy_threads")
def test_threads_that_read_one_message_get_the_same(arrive: Callable[[], ReceivedMessage]) -> None:
    """A recorder's thread reads messages while their handlers do."""
    for _ in range(300):
        message, together = arrive(), threading.Barrier(3)

        def read(message: ReceivedMessage = message, together: threading.Barrier = together) -> object:
            together.wait()
            late: list[object] = [message.stored_at, message.priority, message.tag]
            return tuple(late)

        with ThreadPoolExecutor(3) as threads:
            results = {each.result() for each in [threads.submit(read) for _ in range(3)]}
        assert results == {(message.stored_at, None, "paid")}
