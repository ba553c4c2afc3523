"""Responses on which documents and Apache's servers disagree, by one request or two each: recorded, and failed
only by what answers as the documents say.

They are fields of the fake's profiles; a recorded run shows for each what a real server does."""

from __future__ import annotations

import functools
import math
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aiorocketmq._remoting.codes import RequestCode, ResponseCode
from aiorocketmq.config import Credentials
from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import INFORMATIONAL, case
from aiorocketmq_conformance.cases.limits.requests import ends_with
from aiorocketmq_conformance.cases.shared.dead_letters import dead_letter, dead_letter_reader, reading_group
from aiorocketmq_conformance.cases.shared.lite import ADD, NEEDS as LITE, open_lite
from aiorocketmq_conformance.cases.shared.nack import nack, nack_and_wait
from aiorocketmq_conformance.cases.shared.queues import PULL, REMOTING, GrpcReader, over_remoting
from aiorocketmq_conformance.cases.shared.transactions import always, open_transactions
from aiorocketmq_conformance.consumer import LEASE, SHORT_POLL, Consumer, answered
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import Delivery, Received, code_name, code_of
from aiorocketmq_conformance.probe.remoting_answers import response_text
from aiorocketmq_conformance.target import Rights
from aiorocketmq_conformance.tolerances import PROMPT

LONG_POLL, CUT_POLL = 25.0, 22.0
"""A poll that Apache's proxy limits to 20 s, and a duration clearly above that."""
SAME_HASH = ("Aa", "BB")
"""Two tags with one hash."""
HANDLE_LEASE, HANDLE_OFFSET = 2, 7
"""Indices of the lease's length (ms) and of the message's offset in the fields of a receipt handle."""
NACK = 10.0
RIGHTS = ("auth", "@acl", "remoting")
PARKED_POLLS = 1100
"""More than one group can park at a topic."""
Asking = Callable[[Fixture], Awaitable[str]]


def documented(
    name: str, answer: str, *, rules: Sequence[str], needs: Sequence[str] = ()
) -> Callable[[Asking], Asking]:
    """Declare a case that passes if the decorated function returns `answer`, which the documents promise."""

    def declare(ask: Asking) -> Asking:
        @functools.wraps(ask)
        async def run(fixture: Fixture) -> None:
            outcome = await ask(fixture)
            fixture.note("answer", outcome)
            assert outcome == answer, f"{outcome} instead of {answer}"

        case(
            f"documented.{name}",
            rules=rules,
            level=INFORMATIONAL,
            needs=needs,
            timeout=120.0,
        )(run)
        return ask

    return declare


async def _leased(fixture: Fixture, *, ordered: bool = False, **fields: Any) -> tuple[Consumer, Delivery]:
    """Return a consumer of a fresh topic, and its only message, which it has received."""
    topic, consumer = await fixture.subscribed(1, type="FIFO" if ordered else "NORMAL", ordered=ordered)
    await fixture.send(topic, "m", group="g" if ordered else None, **fields)
    return consumer, await consumer.one()


async def _poll_ends(
    fixture: Fixture, consumer: Consumer, change: Awaitable[object], *, polls: int = 1
) -> str:
    """Return whether parked polls for a message each are completed within 5 s of `change`."""
    parked = [fixture.background(consumer.receive(batch=1, poll=15.0, invisible=LEASE)) for _ in range(polls)]
    await fixture.clock.sleep(1.0)
    await change
    await fixture.clock.sleep(5.0)
    ended = sum(poll.done() for poll in parked)
    return {0: "goes on", polls: "ends"}.get(ended, f"{ended} of {polls} end")


async def _cancel_poll(fixture: Fixture, consumer: Consumer) -> None:
    """Park a poll, and cancel its call."""
    poll = fixture.background(consumer.receive(poll=15.0, invisible=LEASE))
    await fixture.clock.sleep(1.0)
    poll.cancel()
    await fixture.clock.sleep(1.0)


def _entry(reply: pb.AckMessageResponse) -> str:
    return code_name(reply.entries[0].status.code if reply.entries else reply.status.code)


@documented("malformed-handle", "INVALID_RECEIPT_HANDLE", rules=("R6.2",))
async def malformed_handle(fixture: Fixture) -> str:
    """An acknowledgement with a malformed handle is INVALID_RECEIPT_HANDLE."""
    topic, consumer = await fixture.subscribed(1)
    return _entry(await consumer.client.ack(topic, consumer.group, (requests.message_id(), "no handle")))


@documented("ack-without-entries", "BAD_REQUEST", rules=("R6.6",))
async def ack_without_entries(fixture: Fixture) -> str:
    """An acknowledgement without entries is BAD_REQUEST."""
    topic, consumer = await fixture.subscribed(1)
    return code_of(await consumer.client.ack(topic, consumer.group))


@documented("unknown-transaction", "INVALID_TRANSACTION_ID", rules=("9.2",), needs=("type.tx",))
async def unknown_transaction(fixture: Fixture) -> str:
    """The resolution of an unknown transaction is INVALID_TRANSACTION_ID."""
    topic = await fixture.topic(1, type="TRANSACTION")
    producer = await fixture.producer(topic)
    request = pb.EndTransactionRequest(
        topic=requests.resource(topic),
        message_id=requests.message_id(),
        transaction_id=requests.message_id(),
        resolution=pb.TransactionResolution.COMMIT,
    )
    return code_of(await producer.unary("EndTransaction", request))


@documented("route-without-scheme", "ILLEGAL_ACCESS_POINT", rules=("R3.5",))
async def route_without_scheme(fixture: Fixture) -> str:
    """A route query with endpoints without a scheme is ILLEGAL_ACCESS_POINT."""
    topic = await fixture.topic(1)
    producer = await fixture.producer(topic)
    endpoints = requests.endpoints(fixture.target.endpoint)
    endpoints.scheme = pb.AddressScheme.ADDRESS_SCHEME_UNSPECIFIED
    return code_of(await producer.query_route(topic, endpoints=endpoints))


@documented("other-namespace", "TOPIC_NOT_FOUND", rules=("R14.7",))
async def other_namespace(fixture: Fixture) -> str:
    """A topic does not exist in another namespace."""
    topic = await fixture.topic(1)
    producer = await fixture.producer(topic)
    return code_of(await producer.query_route(topic, namespace="elsewhere"))


@documented("negative-batch", "BAD_REQUEST", rules=("R5.3",))
async def negative_batch(fixture: Fixture) -> str:
    """A receive of a negative number of messages is BAD_REQUEST."""
    consumer = await fixture.consumer(await fixture.topic(1))
    return answered(await consumer.receive(batch=-1, poll=SHORT_POLL, invisible=LEASE))


@documented("empty-receive", "OK", rules=("O8",))
async def empty_receive(fixture: Fixture) -> str:
    """A receive that ends without messages is OK."""
    consumer = await fixture.consumer(await fixture.topic(1))
    return answered(await consumer.receive(poll=SHORT_POLL, invisible=LEASE))


@documented("receive-without-deadline", "OK", rules=("5.1 row 2",))
async def receive_without_deadline(fixture: Fixture) -> str:
    """A receive without a gRPC deadline is served."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.backlog(topic, "m")
    request = pb.ReceiveMessageRequest(
        group=requests.resource(consumer.group),
        message_queue=pb.MessageQueue(topic=requests.resource(topic), id=-1),
        filter_expression=requests.filter_of("*"),
        batch_size=1,
    )
    requests.duration(request.invisible_duration, LEASE)
    requests.duration(request.long_polling_timeout, SHORT_POLL)
    answer = await consumer.client.receive_raw(request, deadline=None)
    consumer.deliveries += answer.deliveries
    return answer.error or code_name(answer.code)


@documented("longest-poll", "as asked", rules=("5.1 row 3",))
async def longest_poll(fixture: Fixture) -> str:
    """A poll of 25 s takes 25 s."""
    consumer = await fixture.consumer(await fixture.topic(1))
    answer = await consumer.receive(poll=LONG_POLL, invisible=LEASE)
    return "as asked" if answer.took > CUT_POLL else "cut"


@documented("shortest-poll", "as asked", rules=("5.1 row 3",))
async def shortest_poll(fixture: Fixture) -> str:
    """A poll of 1 s takes 1 s."""
    consumer = await fixture.consumer(await fixture.topic(1))
    answer = await consumer.receive(poll=1.0, invisible=LEASE)
    return "as asked" if answer.took < SHORT_POLL / 2 else "stretched"


@documented("polling-time-of-an-old-client", "ILLEGAL_POLLING_TIME", rules=("R1.1", "5.1 row 4"))
async def polling_time_of_an_old_client(fixture: Fixture) -> str:
    """A poll beyond its deadline is ILLEGAL_POLLING_TIME for clients of any version."""
    topic = await fixture.topic(1)
    group = await fixture.target.create_group()
    client = await fixture.client(x_mq_client_version="5.0.2")
    await client.send_settings(requests.consumer_settings(group, {topic: "*"}, pb.ClientType.SIMPLE_CONSUMER))
    return answered(await client.receive(topic, group, poll=10.0, deadline=4.0, invisible=LEASE))


@documented("poll-of-a-terminated-client", "ends", rules=("consumption 4",))
async def poll_of_a_terminated_client(fixture: Fixture) -> str:
    """The parked poll of a client that terminates is completed at once."""
    consumer = await fixture.consumer(await fixture.topic(1))
    return await _poll_ends(fixture, consumer, consumer.client.terminate(consumer.group))


@documented("pull-of-a-terminated-client", "ends", rules=("consumption 4",), needs=PULL)
async def pull_of_a_terminated_client(fixture: Fixture) -> str:
    """The parked pull of a client that terminates is completed at once."""
    consumer = await fixture.consumer(await fixture.topic(1), prime=False)
    parked = fixture.background(GrpcReader(fixture, consumer).pull(0, poll=15.0))
    await fixture.clock.sleep(1.0)
    await consumer.client.terminate(consumer.group)
    await fixture.clock.sleep(5.0)
    return "ends" if parked.done() else "goes on"


@documented("poll-beside-a-tag-of-equal-hash", "goes on", rules=("R5.23", "5.2 row 3"))
async def poll_beside_a_tag_of_equal_hash(fixture: Fixture) -> str:
    """A poll for a tag is not completed by a message with another tag of the same hash."""
    topic = await fixture.topic(1)
    tag, other = SAME_HASH
    consumer = await fixture.consumer(topic, expression=tag)
    return await _poll_ends(fixture, consumer, fixture.send(topic, "m", tag=other))


@documented("poll-behind-one-with-another-filter", "ends", rules=("R5.18",))
async def poll_behind_one_with_another_filter(fixture: Fixture) -> str:
    """Of two parked polls of a group the one whose filter selects a new message is completed, although the other one
    ends earlier."""
    topic = await fixture.topic(1)
    other = await fixture.consumer(topic, expression="a")
    consumer = await fixture.consumer(topic, group=other.group, expression="b", prime=False)
    fixture.background(other.receive(poll=12.0))
    return await _poll_ends(fixture, consumer, fixture.send(topic, "m", tag="b"))


@documented("poll-beside-a-reset", "ends", rules=("R10.6",), needs=("@reset",))
async def poll_beside_a_reset(fixture: Fixture) -> str:
    """Each of three parked polls is completed when its group is reset to three available messages."""
    topic, consumer = await fixture.subscribed(1)
    before = fixture.clock.wall()
    await fixture.send(topic, "a", "b", "c")
    await consumer.take(3)
    reset = fixture.target.admin.reset_offset(consumer.group, topic, before - 1.0)
    return await _poll_ends(fixture, consumer, reset, polls=3)


@documented("unregistered-change", "OK", rules=("R6.9",))
async def unregistered_change(fixture: Fixture) -> str:
    """Any client with its handle can change a lease."""
    _, delivery = await _leased(fixture)
    stranger = await fixture.client()
    return code_of(await stranger.change_invisible(delivery, LEASE))


@documented("change-with-a-replaced-handle", "INVALID_RECEIPT_HANDLE", rules=("R6.12",))
async def change_with_a_replaced_handle(fixture: Fixture) -> str:
    """A handle that a change has replaced does not change the lease again."""
    consumer, delivery = await _leased(fixture)
    assert code_of(await consumer.client.change_invisible(delivery, LEASE)) == "OK"
    return code_of(await consumer.client.change_invisible(delivery, LEASE))


@documented(
    "ordered-ack-with-a-replaced-handle", "INVALID_RECEIPT_HANDLE", rules=("R8.12",), needs=("type.fifo",)
)
async def ordered_ack_with_a_replaced_handle(fixture: Fixture) -> str:
    """A handle that a change has replaced does not acknowledge in an ordered group."""
    consumer, delivery = await _leased(fixture, ordered=True)
    await fixture.send(consumer.topic, "next", group="g")
    assert code_of(await consumer.client.change_invisible(delivery, LEASE)) == "OK"
    entry = _entry(await consumer.client.ack(consumer.topic, consumer.group, delivery))
    answer = await consumer.receive(poll=SHORT_POLL, invisible=LEASE)
    return f"{entry}, unblocked" if answer.deliveries else entry


@documented("illegal-termination", "OK", rules=("R2.16",))
async def illegal_termination(fixture: Fixture) -> str:
    """A termination that is refused for its group's name does not unregister the client."""
    consumer = await fixture.consumer(await fixture.topic(1))
    await consumer.client.terminate("no/group")
    return code_of(await consumer.client.heartbeat(consumer.group, consumer.kind))


@documented("unknown-language", "OK", rules=("1.1",))
async def unknown_language(fixture: Fixture) -> str:
    """A client may register with any language."""
    settings = requests.producer_settings(await fixture.topic(1))
    return await ends_with(await fixture.client(x_mq_language="KLINGON"), settings)


@documented("key-with-a-space", "one key", rules=("R4.2",))
async def key_with_a_space(fixture: Fixture) -> str:
    """A key with a space is delivered as one key."""
    _, delivery = await _leased(fixture, keys=["a b"])
    return "one key" if list(delivery.message.system_properties.keys) == ["a b"] else "two keys"


@documented("empty-property", "delivered", rules=("R4.2",))
async def empty_property(fixture: Fixture) -> str:
    """A property with an empty value is delivered."""
    _, delivery = await _leased(fixture, properties={"empty": "", "other": "x"})
    return "delivered" if "empty" in delivery.message.user_properties else "lost"


@documented("message-group-as-property", "no user property", rules=("R4.4",), needs=("type.fifo",))
async def message_group_as_property(fixture: Fixture) -> str:
    """The message group is not a user property."""
    _, delivery = await _leased(fixture, ordered=True)
    return "a user property" if "__SHARDINGKEY" in delivery.message.user_properties else "no user property"


@documented("transaction-id-of-a-normal-message", "none", rules=("R4.12",))
async def transaction_id_of_a_normal_message(fixture: Fixture) -> str:
    """The receipt of a normal message has no transaction id."""
    (sent,) = await fixture.send(await fixture.topic(1), "m")
    return "present" if sent.receipt.transaction_id else "none"


@documented("offset-of-a-redelivery", "the first copy's", rules=("R7.1",))
async def offset_of_a_redelivery(fixture: Fixture) -> str:
    """A redelivery has the offset of the first delivery."""
    topic, consumer = await fixture.subscribed(1)
    first, second = await fixture.send(topic, "first", "second")
    deliveries = await consumer.take(2, settle=False, invisible=10.0)
    await consumer.ack(*(one for one in deliveries if one.id == first.id))
    (leased,) = (one for one in deliveries if one.id == second.id)
    redelivery = await consumer.find(second, within=10.0 + 2 * PROMPT)
    return "the first copy's" if redelivery.offset == leased.offset else "another"


@documented("dead-letter-attempt", "1", rules=("R7.6",), needs=("dlq",))
async def dead_letter_attempt(fixture: Fixture) -> str:
    """A dead letter starts with attempt 1."""
    return str((await dead_letter(fixture)).attempt)


@documented("dead-letter-type", "NORMAL", rules=("consumption 1",), needs=("dlq",))
async def dead_letter_type(fixture: Fixture) -> str:
    """A dead letter has the message type that was sent."""
    return pb.MessageType.Name((await dead_letter(fixture)).message.system_properties.message_type)


async def _selected(fixture: Fixture, sql: str, **fields: Any) -> Received:
    """Return the response to a receive with an SQL expression, of a topic with one visible message."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.backlog(topic, "m", **fields)
    expression = pb.FilterExpression(type=pb.FilterType.SQL, expression=sql)
    return await consumer.receive(poll=SHORT_POLL, invisible=LEASE, expression=expression)


@documented("sql-over-server-properties", "not matched", rules=("5.6",), needs=("filter.sql",))
async def sql_over_server_properties(fixture: Fixture) -> str:
    """SQL expressions select by the sender's properties only."""
    answer = await _selected(fixture, "CLUSTER IS NOT NULL")
    return "matched" if answer.deliveries else "not matched"


@documented("sql-over-an-empty-property", "not null", rules=("5.6",), needs=("filter.sql",))
async def sql_over_an_empty_property(fixture: Fixture) -> str:
    """To SQL expressions a property without text is empty, and not missing."""
    answer = await _selected(fixture, "color IS NULL", properties={"color": ""})
    return "null" if answer.deliveries else "not null"


@documented("recall-with-a-malformed-handle", "MESSAGE_NOT_FOUND", rules=("R4.25",), needs=("recall",))
async def recall_with_a_malformed_handle(fixture: Fixture) -> str:
    """A recall with a malformed handle is MESSAGE_NOT_FOUND."""
    topic = await fixture.topic(1, type="DELAY")
    return await _recall(fixture, topic, "no handle")


@documented("recall-of-another-message", "MESSAGE_NOT_FOUND", rules=("R4.25",), needs=("recall",))
async def recall_of_another_message(fixture: Fixture) -> str:
    """A recall with a handle of an unknown message is MESSAGE_NOT_FOUND."""
    topic = await fixture.topic(1, type="DELAY")
    (sent,) = await fixture.send(topic, "m", deliver_at=fixture.clock.wall() + 60.0)
    fields = urlsafe_b64decode(sent.receipt.recall_handle).decode().split(" ")
    other = urlsafe_b64encode(" ".join((*fields[:-1], requests.message_id())).encode()).decode()
    return await _recall(fixture, topic, other)


@documented("late-recall", "OK", rules=("R4.25",), needs=("recall",))
async def late_recall(fixture: Fixture) -> str:
    """A message can be recalled until its delivery time."""
    topic = await fixture.topic(1, type="DELAY")
    at = math.ceil(fixture.clock.wall()) + 10.0  # servers deliver at whole seconds
    (sent,) = await fixture.send(topic, "m", deliver_at=at)
    await fixture.clock.sleep(at - fixture.clock.wall() - 0.3)
    return await _recall(fixture, topic, sent.receipt.recall_handle)


@documented("lite-limits-of-a-plain-group", "not announced", rules=("R4.31",))
async def lite_limits_of_a_plain_group(fixture: Fixture) -> str:
    """Limits of lite topics are announced only to groups of lite topics."""
    consumer = await fixture.consumer(await fixture.topic(1))
    assert consumer.client.settings is not None
    announced = consumer.client.settings.subscription.HasField("lite_subscription_quota")
    return "announced" if announced else "not announced"


@documented("lite-limits", "2000 names of 64 bytes", rules=("R4.31",), needs=LITE)
async def lite_limits(fixture: Fixture) -> str:
    """A consumer of lite topics is told the default limits."""
    consumer = await (await open_lite(fixture)).consumer()
    assert consumer.client.settings is not None
    subscription = consumer.client.settings.subscription
    return f"{subscription.lite_subscription_quota} names of {subscription.max_lite_topic_size} bytes"


@documented("lite-quota-in-one-request", "refused", rules=("R4.34",), needs=LITE)
async def lite_quota_in_one_request(fixture: Fixture) -> str:
    """A subscription to one lite topic more than the quota allows is refused."""
    return await _lite_quota(fixture, 3)


@documented("lite-quota-far-exceeded", "refused", rules=("R4.34",), needs=LITE)
async def lite_quota_far_exceeded(fixture: Fixture) -> str:
    """So is one to 301 more."""
    return await _lite_quota(fixture, 303)


@documented("lite-quota-in-two-requests", "refused", rules=("R4.34",), needs=LITE)
async def lite_quota_in_two_requests(fixture: Fixture) -> str:
    """A quota counts the subscriptions of all requests: 301 beyond it, in two requests, are refused."""
    return await _lite_quota(fixture, 300, 3)


async def _lite_quota(fixture: Fixture, *counts: int) -> str:
    """Return the answer to the last of several requests to subscribe to so many lite topics, with a quota of 2."""
    lite = await open_lite(fixture, quota=2)
    consumer = await lite.consumer()
    for request, count in enumerate(counts):
        names = [f"name-{request}-{number}" for number in range(count)]
        answer = await lite.sync(consumer, ADD, *names)
    return "accepted" if answer == "OK" else "refused"


@documented("handle-of-a-missing-message", "INVALID_RECEIPT_HANDLE", rules=("6.2",))
async def handle_of_a_missing_message(fixture: Fixture) -> str:
    """A handle of an unknown offset is INVALID_RECEIPT_HANDLE."""
    consumer, delivery = await _leased(fixture)
    fields = delivery.handle.split(" ")
    fields[HANDLE_OFFSET] = "999999"
    return _entry(await consumer.client.ack(consumer.topic, consumer.group, (delivery.id, " ".join(fields))))


@documented("changed-handle", "ten fields", rules=("consumption 2",))
async def changed_handle(fixture: Fixture) -> str:
    """A changed handle has one field more than the nine of others."""
    consumer, delivery = await _leased(fixture)
    changed = await consumer.client.change_invisible(delivery, LEASE)
    counts = [len(handle.split(" ")) for handle in (delivery.handle, changed.receipt_handle)]
    return "ten fields" if counts == [9, 10] else f"{counts} fields"


@documented("forward-with-a-changed-handle", "the message", rules=("consumption 5a",), needs=("dlq",))
async def forward_with_a_changed_handle(fixture: Fixture) -> str:
    """A forward with a changed handle creates a dead letter of its message."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send(topic, "earlier")  # servers that take another one take the first of all
    await consumer.take(1)
    await fixture.send(topic, "m")
    delivery = await consumer.one()
    readers = await reading_group(fixture)
    changed = await consumer.client.change_invisible(delivery, LEASE)
    reply = await consumer.client.forward_to_dead_letters(delivery, 1, handle=changed.receipt_handle)
    if reply.status.code != pb.Code.OK:
        return code_of(reply)
    await fixture.clock.sleep(SHORT_POLL)
    reader = await dead_letter_reader(fixture, consumer, readers)
    letters = await reader.receive_for(10.0, settle=True)
    return "the message" if [one.id for one in letters] == [delivery.id] else "another or none"


@documented("retry-topic-of-dead-letters", "TOPIC_NOT_FOUND", rules=("consumption 5",), needs=("dlq",))
async def retry_topic_of_dead_letters(fixture: Fixture) -> str:
    """The first dead letter of a group creates no retry topic."""
    letter = await dead_letter(fixture)
    group = letter.topic.removeprefix("%DLQ%")
    client = await fixture.producer(letter.topic)
    return code_of(await client.query_route(f"%RETRY%{group}"))


@documented("batch-of-message-groups", "several queues", rules=("R4.15", "R4.16"), needs=("type.fifo",))
async def batch_of_message_groups(fixture: Fixture) -> str:
    """A batch of many message groups is spread as single messages are."""
    topic = await fixture.topic(8, type="FIFO")
    consumer, producer = await fixture.consumer(topic, ordered=True), await fixture.producer(topic)
    messages = [requests.message(topic, "m", group=f"g{number}") for number in range(8)]
    reply = await producer.send(*messages)
    if reply.status.code != pb.Code.OK:
        return code_name(reply.status.code)
    deliveries = await consumer.take(8, within=2 * PROMPT)
    return "several queues" if len({one.queue for one in deliveries}) > 1 else "one queue"


@documented("reset-of-leased-messages", "once", rules=("R10.6",), needs=("@reset",))
async def reset_of_leased_messages(fixture: Fixture) -> str:
    """A message in flight is redelivered once after a reset to an earlier offset."""
    topic, consumer = await fixture.subscribed(1)
    before = fixture.clock.wall()
    await fixture.send(topic, "m")
    await consumer.one(invisible=10.0)
    await fixture.target.admin.reset_offset(consumer.group, topic, before - 1.0)
    await consumer.take(1, within=2 * PROMPT)
    return "twice" if await consumer.receive_for(20.0, settle=True) else "once"


@documented("attempts-of-an-ordered-batch", "2 1", rules=("R8.13",), needs=("type.fifo",))
async def attempts_of_an_ordered_batch(fixture: Fixture) -> str:
    """Each message of an ordered batch has its own attempt."""
    topic, consumer = await fixture.subscribed(1, type="FIFO", ordered=True)
    await fixture.send(topic, "a", "b", group="g")
    await consumer.one(invisible=10.0)
    await fixture.clock.sleep(12.0)
    answer = await consumer.receive(batch=2, poll=10.0, invisible=LEASE)
    return " ".join(str(one.attempt) for one in answer.deliveries)


@documented("sql-with-words-behind", "refused", rules=("5.6",), needs=("filter.sql",))
async def sql_with_words_behind(fixture: Fixture) -> str:
    """An SQL expression with trailing words is refused."""
    answer = await _selected(fixture, "a = 'x' 'y'", properties={"a": "x"})
    return "matched" if answer.deliveries else "refused" if answer.code != pb.Code.OK else "not matched"


@documented("client-properties-beyond-limits", "INVALID_ARGUMENT", rules=("R2.18",))
async def client_properties_beyond_limits(fixture: Fixture) -> str:
    """Settings with a client property of 8,192 characters are refused."""
    settings = requests.producer_settings(await fixture.topic(1))
    settings.client_properties["key"] = "x" * 8192
    return await ends_with(await fixture.client(), settings)


@documented("receive-for-another-group", "not ordered", rules=("R5.1",), needs=("type.fifo",))
async def receive_for_another_group(fixture: Fixture) -> str:
    """Whether a receive is ordered depends on its group, not on the group in its client's settings."""
    topic, consumer = await fixture.subscribed(1, type="FIFO", ordered=True)
    other = (await fixture.consumer(topic)).group
    await fixture.backlog(topic, "a", "b", group="g")
    for _ in range(2):
        answer = await consumer.client.receive(topic, other, batch=1, poll=SHORT_POLL, invisible=LEASE)
        consumer.deliveries += answer.deliveries
    return "not ordered" if answer.deliveries else "ordered"


@documented("cancelled-poll", "delivered at once", rules=("R5.7",))
async def cancelled_poll(fixture: Fixture) -> str:
    """A parked poll whose call was cancelled takes no message."""
    consumer = await fixture.consumer(await fixture.topic(1))
    await _cancel_poll(fixture, consumer)
    await fixture.send(consumer.topic, "m")
    answer = await consumer.receive(poll=SHORT_POLL, invisible=LEASE)
    return "delivered at once" if answer.deliveries and answer.took < 0.5 else "later"


@documented("attempt-after-a-cancelled-poll", "1", rules=("R5.7",), needs=("type.fifo",))
async def attempt_after_a_cancelled_poll(fixture: Fixture) -> str:
    """A message of an ordered group that a cancelled poll has taken has had no attempt."""
    topic, consumer = await fixture.subscribed(1, type="FIFO", ordered=True)
    await _cancel_poll(fixture, consumer)
    await fixture.send(topic, "m", group="g")
    return str((await consumer.one(within=LEASE + 2 * PROMPT)).attempt)


@documented("poll-behind-an-extended-first-lease", "ends", rules=("R8.11",), needs=("type.fifo",))
async def poll_behind_an_extended_first_lease(fixture: Fixture) -> str:
    """A parked poll of an ordered group is completed when the extended lease of the first of two messages expires."""
    return await _poll_behind_an_extended_lease(fixture, 0)


@documented("poll-behind-an-extended-second-lease", "ends", rules=("R8.11",), needs=("type.fifo",))
async def poll_behind_an_extended_second_lease(fixture: Fixture) -> str:
    """A parked poll of an ordered group is completed when the extended lease of the second of two messages expires."""
    return await _poll_behind_an_extended_lease(fixture, 1)


async def _poll_behind_an_extended_lease(fixture: Fixture, place: int) -> str:
    topic, consumer = await fixture.subscribed(1, type="FIFO", ordered=True)
    await fixture.backlog(topic, "a", "b", group="g")
    deliveries = await consumer.take(2, settle=False, invisible=10.0)
    assert code_of(await consumer.client.change_invisible(deliveries[place], 13.0)) == "OK"
    answer = await consumer.receive(poll=20.0, invisible=LEASE)
    return "ends" if answer.deliveries and answer.took < 16.0 else "goes on"


@documented("parked-polls", "1,024 or few more", rules=("5.2",))
async def parked_polls(fixture: Fixture) -> str:
    """With more than 1,024 polls of a group parked at a topic, the next one is refused or ends at once."""
    consumer = await fixture.consumer(await fixture.topic(1))
    client = consumer.client
    polls = [
        fixture.background(client.receive(consumer.topic, consumer.group, poll=20.0))
        for _ in range(PARKED_POLLS)
    ]
    await fixture.clock.sleep(SHORT_POLL)
    last = await client.receive(consumer.topic, consumer.group, poll=SHORT_POLL)
    parked = sum(not poll.done() for poll in polls)
    fixture.note("parked", parked)
    # Servers count before they park, so that polls of one instant exceed the limit.
    is_limited = last.took < SHORT_POLL / 2 and parked >= 1024
    return "1,024 or few more" if is_limited else f"{parked}, and one more"


@documented("lease-with-renewal", "60 s", rules=("5.1 row 6",))
async def lease_with_renewal(fixture: Fixture) -> str:
    """A receive with `auto_renew` is given a lease of 60 s."""
    topic, consumer = await fixture.subscribed(1, kind=pb.ClientType.PUSH_CONSUMER)
    await fixture.send(topic, "m")
    delivery = await consumer.one(auto_renew=True)
    return f"{float(delivery.handle.split(' ')[HANDLE_LEASE]) / 1000:g} s"


@documented("delivery-time-within-a-second", "in time", rules=("R4.19",), needs=("type.delay",))
async def delivery_time_within_a_second(fixture: Fixture) -> str:
    """A message whose delivery time is not a whole second is delivered at that time."""
    topic, consumer = await fixture.subscribed(1, type="DELAY")
    due = math.ceil(fixture.clock.wall()) + 4.1
    await fixture.send(topic, "m", deliver_at=due)
    await consumer.one(poll=10.0)
    return "in time" if fixture.clock.wall() < due + 0.5 else "late"


@documented("checks-of-two-transactions", "one by one", rules=("R9.6",), needs=("type.tx",))
async def checks_of_two_transactions(fixture: Fixture) -> str:
    """Each transaction is checked in its own time: those sent 10 s apart at least 5 s apart."""
    transactions = await open_transactions(fixture, needs_checks=True)
    checker = await transactions.checker(always(pb.TransactionResolution.ROLLBACK))
    await transactions.prepare("first")
    await fixture.clock.sleep(10.0)
    await transactions.prepare("second")
    await transactions.expect_checks(checker, 2)
    first, second = (check.at for check in checker.checks[:2])
    return "one by one" if second - first > 5.0 else "together"


@documented("refused-first-send", "TOPIC_NOT_FOUND", rules=("R10.2",), needs=REMOTING)
async def refused_first_send(fixture: Fixture) -> str:
    """A send over remoting that is refused because of its size leaves no topic, if it names an unknown one."""
    reader = await over_remoting(fixture)
    client = await fixture.producer(reader.topic)
    name = fixture.fresh("topic")
    body = bytes(int(fixture.number("body.max")) + 1)
    answer = await reader.probe.send(reader.topic, body, named=name)
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL, f"answered with {response_text(answer)}"
    return code_of(await client.query_route(name))


@documented("redeliveries-of-a-deleted-group", "none", rules=("R7.1", "R10.3"), needs=("@delete",))
async def redeliveries_of_a_deleted_group(fixture: Fixture) -> str:
    """A group that is deleted and created again under its name gets no redelivery of before."""
    topic, consumer = await fixture.subscribed(1)
    await fixture.send(topic, "old")
    await consumer.ack((await nack_and_wait(fixture, consumer, await consumer.one(), NACK))[0])
    await fixture.target.admin.delete_group(consumer.group)
    await fixture.target.create_group(consumer.group)
    (fresh,) = await fixture.send(topic, "fresh")
    found = await consumer.receive_for(PROMPT)
    for delivery in found:
        await (nack(consumer, delivery, NACK) if delivery.id == fresh.id else consumer.ack(delivery))
    again = await consumer.receive_for(NACK + fixture.number("nack.high") + PROMPT)
    old = [one for one in (*found, *again) if one.text == "old" and one.attempt > 1]
    assert any(one.id == fresh.id for one in again), "the new group got no redelivery of its own"
    return f"{len(old)}" if old else "none"


@documented("lite-topics-of-a-deleted-group", "a b", rules=("R4.32", "R10.3"), needs=("type.lite", "@delete"))
async def lite_topics_of_a_deleted_group(fixture: Fixture) -> str:
    """A group that is deleted and created again under its name receives its lite topics from their beginnings."""
    lite = await open_lite(fixture)
    consumer = await lite.consumer("l1")
    await lite.send("l1", "a", "b")
    await consumer.ack(await consumer.one())
    await fixture.target.admin.delete_group(lite.group)
    await fixture.group(lite.group, lite_topic=lite.topic)
    successor = await lite.consumer("l1")
    # Servers look only every ten seconds whether a lite topic has messages.
    return " ".join(one.text for one in await successor.receive_for(25.0, settle=True)) or "none"


async def _served(
    fixture: Fixture, asked: dict[RequestCode, dict[str, object]], topic: str, **rights: tuple[str, ...]
) -> str:
    """Return which requests are served to a user who has these rights only."""
    key = fixture.fresh("user")
    nothing: dict[str, tuple[str, ...]] = {"publish": (), "subscribe": (), "groups": ()}
    await fixture.target.rights_of(Rights(key, key, **{**nothing, **rights}))
    probe = fixture.member(credentials=Credentials(key, key))
    codes = {
        request.name: (await probe.ask(topic, request, fields)).code for request, fields in asked.items()
    }
    served = [name for name, code in codes.items() if code != ResponseCode.NO_PERMISSION]
    return "all served" if len(served) == len(codes) else ", ".join(served) or "none served"


@documented("queue-ends-for-a-subscriber", "all served", rules=("R14.2",), needs=RIGHTS)
async def queue_ends_for_a_subscriber(fixture: Fixture) -> str:
    """Who may read a topic over remoting may ask for the ends of its queues, where reading begins."""
    topic = await fixture.topic(1)
    queue = {"topic": topic, "queueId": 0}
    asked: dict[RequestCode, dict[str, object]] = {
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: {**queue, "timestamp": 0},
        RequestCode.GET_MAX_OFFSET: {**queue},
        RequestCode.GET_MIN_OFFSET: {**queue},
        RequestCode.GET_EARLIEST_MSG_STORETIME: {**queue},
    }
    return await _served(fixture, asked, topic, subscribe=(topic,))


@documented("lists-without-rights", "none served", rules=("R14.2",), needs=RIGHTS)
async def lists_without_rights(fixture: Fixture) -> str:
    """Who may use one group over remoting gets no list of topics or groups."""
    asked: dict[RequestCode, dict[str, object]] = {
        RequestCode.GET_ALL_TOPIC_CONFIG: {},
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: {},
    }
    return await _served(fixture, asked, await fixture.topic(1), groups=(fixture.fresh("group"),))


async def _recall(fixture: Fixture, topic: str, handle: str) -> str:
    producer = await fixture.producer(topic)
    return code_of(await producer.recall(topic, handle))
