"""A topic that was there is not lost for good when a proxy says that it does not know it: its brokers may be away."""

from typing import Any

import pytest
from aiorocketmq.config import Retry, Timeouts
from aiorocketmq.errors import TopicNotFoundError, TopicUnavailableError, TypeMismatchError, refusal
from aiorocketmq.message import Message
from aiorocketmq.producer import Producer

from sdk.tests.clients import simple_consumer

SAID = "TopicMessageType validate failed, the expected type is UNSPECIFIED, but actual type is NORMAL"
"""A proxy of 5.5.0 whose broker had been killed (code 40014)."""


async def test_a_send_outlasts_a_moment_without_the_topics_brokers(broker: Any) -> None:
    async with Producer(broker.endpoint, topics=["orders"]) as producer:
        broker.faults.refuse("SendMessage", "TOPIC_NOT_FOUND", times=1)
        assert (await producer.send(Message("orders", b"x"))).attempts == 2


async def test_a_batch_outlasts_it_too(broker: Any) -> None:
    async with Producer(broker.endpoint, topics=["orders"], linger=0.01) as producer:
        broker.faults.refuse("SendMessage", "TOPIC_NOT_FOUND", times=1)
        receipts = await producer.send_many([Message("orders", b"%d" % number) for number in range(3)])
    assert len(receipts) == len(broker.messages("orders")) == 3


async def test_who_loses_patience_hears_that_another_try_may_help(broker: Any) -> None:
    async with Producer(broker.endpoint, topics=["orders"], retry=Retry(attempts=2)) as producer:
        broker.faults.refuse("SendMessage", "TOPIC_NOT_FOUND", times=2)
        with pytest.raises(TopicUnavailableError, match="check that its brokers run") as raised:
            await producer.send(Message("orders", b"x"))
    assert raised.value.may_retry
    assert not raised.value.may_have_taken_effect


async def test_a_receive_says_so_too(broker: Any) -> None:
    async with simple_consumer(broker.endpoint) as consumer:
        broker.faults.refuse("ReceiveMessage", "TOPIC_NOT_FOUND", times=1)
        with pytest.raises(TopicUnavailableError):
            await consumer.receive(wait=1)


async def test_a_topic_that_never_was_is_not_away(broker: Any) -> None:
    with pytest.raises(TopicNotFoundError) as raised:
        async with Producer(broker.endpoint, topics=["nowhere"], timeouts=Timeouts(start=0.5)):
            pass
    assert not isinstance(raised.value, TopicUnavailableError)
    assert not raised.value.may_retry


@pytest.mark.parametrize(
    ("text", "known", "kind"),
    [
        (SAID, True, TopicUnavailableError),
        (SAID, False, TopicNotFoundError),
        (SAID.replace("UNSPECIFIED", "FIFO"), True, TypeMismatchError),
    ],
)
def test_a_mismatch_with_no_type_at_all_is_an_unknown_topic(
    text: str, known: bool, kind: type[Exception]
) -> None:
    assert type(refusal(40014, text, topic_known=known)) is kind
