"""Fields that handlers rarely look at are read from the wire when they are first asked for."""

import pytest
from aiorocketmq._core.endpoint import parse_endpoint
from aiorocketmq._session import conversion
from aiorocketmq.message import MessageType, ReceivedMessage
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
