"""Transactions that their producers commit or roll back: inventory 4.5."""

from __future__ import annotations

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import INFORMATIONAL, SHOULD, case
from aiorocketmq_conformance.cases.shared.transactions import NEEDS, always, open_transactions
from aiorocketmq_conformance.fixture import Fixture, once_each
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import code_of
from aiorocketmq_conformance.probe.checker import COMMIT, ROLLBACK, end_transaction
from aiorocketmq_conformance.probe.client import CallFailed
from aiorocketmq_conformance.probe.proxy import ProxyFaults, faulty_proxy
from aiorocketmq_conformance.tolerances import PROMPT, expiry_window
from aiorocketmq_conformance.verdicts import Inconclusive

LEASE = 10.0
# Real seconds after which a producer gives up a call whose answer is lost.
PATIENCE = 1.0
_END = frozenset({"EndTransaction"})


@case("tx.half-invisible", rules=("9.1",), needs=NEEDS)
async def half_invisible(fixture: Fixture) -> None:
    """A half message has a transaction id and is not delivered while its transaction is open."""
    tx = await open_transactions(fixture)
    (half,) = await tx.prepare("half")
    assert half.receipt.transaction_id, "the receipt has no transaction id"
    await tx.expect_nothing(5.0, "delivered before its commit")


@case("tx.commit", rules=("9.1", "9.2", "R9.14"), needs=NEEDS, timeout=120.0)
async def commit(fixture: Fixture) -> None:
    """Ten committed messages are delivered once each, whatever a checker would decide."""
    tx = await open_transactions(fixture)
    await tx.checker(always(ROLLBACK))
    halves = await tx.prepare(*(f"m{n}" for n in range(10)))
    for half in halves:
        assert await tx.end(half, COMMIT) == "OK"
    deliveries = await tx.consumer.take(10, within=30.0)
    once_each(halves, deliveries)
    assert {one.message.system_properties.message_type for one in deliveries} == {pb.MessageType.TRANSACTION}
    assert {one.attempt for one in deliveries} == {1}


@case("tx.rollback", rules=("9.1", "9.2"), needs=NEEDS, timeout=150.0)
async def rollback(fixture: Fixture) -> None:
    """Ten messages that were rolled back are never delivered, even if a checker would commit them."""
    tx = await open_transactions(fixture)
    await tx.checker(always(COMMIT))
    for half in await tx.prepare(*(f"m{n}" for n in range(10))):
        assert await tx.end(half, ROLLBACK) == "OK"
    await tx.expect_nothing(60.0, "delivered after the rollback")


@case("tx.commit-twice", rules=("R9.1", "9.2"), needs=NEEDS)
async def commit_twice(fixture: Fixture) -> None:
    """A message that is committed twice is delivered once."""
    tx = await open_transactions(fixture)
    (half,) = await tx.prepare("m")
    assert await tx.end(half, COMMIT) == "OK"
    fixture.note("second commit", await tx.end(half, COMMIT))
    deliveries = await tx.deliveries_within(5.0)
    once_each([half], deliveries)


@case("tx.commit-then-rollback", rules=("R9.1", "9.2"), needs=NEEDS)
async def commit_then_rollback(fixture: Fixture) -> None:
    """A rollback after a commit has no effect."""
    tx = await open_transactions(fixture)
    (half,) = await tx.prepare("m")
    assert await tx.end(half, COMMIT) == "OK"
    fixture.note("rollback", await tx.end(half, ROLLBACK))
    once_each([half], await tx.deliveries_within(5.0))


@case("tx.rollback-then-commit", rules=("R9.1", "9.2"), needs=NEEDS)
async def rollback_then_commit(fixture: Fixture) -> None:
    """A commit after a rollback has no effect."""
    tx = await open_transactions(fixture)
    (half,) = await tx.prepare("m")
    assert await tx.end(half, ROLLBACK) == "OK"
    fixture.note("commit", await tx.end(half, COMMIT))
    await tx.expect_nothing(PROMPT, "the second resolution took effect")


@case("tx.reply-lost", rules=("R9.1", "9.2", "R9.6"), needs=NEEDS, timeout=240.0)
async def reply_lost(fixture: Fixture) -> None:
    """Messages whose commits or responses are lost are delivered once each, by the commit or after a check."""
    tx = await open_transactions(fixture, needs_checks=True)
    halves = await tx.prepare(*(f"m{n}" for n in range(4)))
    for half, faults in zip(halves, (ProxyFaults(unanswered=_END), ProxyFaults(lost=_END)) * 2, strict=True):
        proxy = faulty_proxy(fixture.target.endpoint, faults)
        blind = await fixture.client(endpoint=await fixture.stack.enter_async_context(proxy))
        await blind.send_settings(requests.producer_settings(tx.topic))
        answer = ""
        try:
            await end_transaction(blind, tx.topic, half.receipt.transaction_id, COMMIT, timeout=PATIENCE)
        except CallFailed as failed:
            answer = failed.code
        assert answer == "DEADLINE_EXCEEDED", f"the lost call ended with {answer or 'an answer'}"
        # So that no other producer is checked whose response would be lost, too.
        await blind.close()
    # Commits are retried after a lost response: one that arrived, one that did not.
    for half in halves[:2]:
        await tx.end(half, COMMIT)
    checker = await tx.checker(always(COMMIT))
    deliveries = await tx.consumer.take(4, within=tx.first_check + 2 * PROMPT)
    deliveries += await tx.consumer.receive_for(tx.interval, settle=True)
    fixture.note("checks", len(checker.checks))
    once_each(halves, deliveries)


@case("tx.end-blank-id", rules=("9.2",), level=SHOULD, needs=NEEDS)
async def end_blank_id(fixture: Fixture) -> None:
    """A resolution without a transaction id is refused with INVALID_TRANSACTION_ID."""
    tx = await open_transactions(fixture)
    (half,) = await tx.prepare("m")
    reply = await end_transaction(tx.producer, tx.topic, "", COMMIT, message_id=half.id)
    assert code_of(reply) == "INVALID_TRANSACTION_ID"


@case("tx.end-unknown-id", rules=("9.2",), level=SHOULD, needs=NEEDS)
async def end_unknown_id(fixture: Fixture) -> None:
    """A resolution of an unknown transaction is refused, and nothing is delivered."""
    tx = await open_transactions(fixture)
    (half,) = await tx.prepare("m")
    invented = half.receipt.transaction_id[::-1]
    answer = await tx.end(half, COMMIT, transaction_id=invented)
    assert answer != "OK", "an unknown transaction was committed"
    fixture.note("answer", answer)
    await tx.expect_nothing(3.0)


@case("tx.end-wrong-topic", rules=("R9.1", "9.2"), level=SHOULD, needs=NEEDS)
async def end_wrong_topic(fixture: Fixture) -> None:
    """A resolution with another topic is refused, delivers nothing there, and leaves the transaction unresolved."""
    tx = await open_transactions(fixture)
    other = await open_transactions(fixture)
    (half,) = await tx.prepare("m")
    assert await tx.end(half, COMMIT, topic=other.topic) != "OK"
    await other.expect_nothing(3.0, "delivered in a topic it was not sent to")
    assert await tx.end(half, COMMIT) == "OK"
    once_each([half], await tx.consumer.take(1))


@case("tx.end-other-client", rules=("9.2",), level=SHOULD, needs=NEEDS)
async def end_other_client(fixture: Fixture) -> None:
    """Another producer of the topic can resolve a transaction, whatever message id it sends."""
    tx = await open_transactions(fixture)
    (half,) = await tx.prepare("m")
    successor = await fixture.producer(tx.topic)
    assert await tx.end(half, COMMIT, client=successor, message_id="another") == "OK"
    once_each([half], await tx.consumer.take(1))


@case("tx.end-unspecified", rules=("9.2",), level=SHOULD, needs=NEEDS)
async def end_unspecified(fixture: Fixture) -> None:
    """A resolution that is neither commit nor rollback delivers nothing, and is the one that the send allows: a commit
    after it is refused."""
    tx = await open_transactions(fixture)
    (half,) = await tx.prepare("m")
    unspecified = pb.TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED
    fixture.note("answer", await tx.end(half, unspecified))
    assert await tx.end(half, COMMIT) != "OK"
    await tx.expect_nothing(5.0)


@case("tx.other-topic-deleted", rules=("R9.1", "9.2"), level=SHOULD, needs=(*NEEDS, "@delete"))
async def other_topic_deleted(fixture: Fixture) -> None:
    """The deletion of a topic ends no transaction of another one."""
    tx, deleted = await open_transactions(fixture), await open_transactions(fixture)
    halves, _ = await tx.prepare("a", "b"), await deleted.prepare("c")
    await fixture.target.admin.delete_topic(deleted.topic)
    assert await tx.end(halves[0], COMMIT) == "OK"
    assert await tx.end(halves[1], ROLLBACK) == "OK"
    once_each([halves[0]], await tx.deliveries_within())


@case("tx.end-late", rules=("R9.1",), level=SHOULD, needs=NEEDS, timeout=240.0)
async def end_late(fixture: Fixture) -> None:
    """A commit after 31 s without a check is refused, and can be repeated as the response to a check."""
    tx = await open_transactions(fixture, needs_checks=True)
    (half,) = await tx.prepare("m", recovery=90.0)
    await fixture.clock.sleep(31.0)
    late = await tx.end(half, COMMIT)
    fixture.note("late commit", late)
    assert late != "OK", "a commit was accepted 31 s after its half message"
    checker = await tx.checker(always(COMMIT))
    await tx.within(90.0 + 2 * tx.interval, checker, 1, half.id)
    once_each([half], await tx.consumer.take(1))


@case("tx.order-free", rules=("R9.14",), level=INFORMATIONAL, needs=NEEDS)
async def order_free(fixture: Fixture) -> None:
    """Half messages that are committed in reverse are delivered in the order of their commits."""
    tx = await open_transactions(fixture)
    halves = await tx.prepare(*(f"m{n}" for n in range(10)))
    for half in reversed(halves):
        assert await tx.end(half, COMMIT) == "OK"
    deliveries = await tx.consumer.take(10, within=30.0)
    assert [one.id for one in deliveries] == [half.id for half in reversed(halves)]


@case("tx.type-mismatch", rules=("R4.5", "R4.27"), level=SHOULD, needs=("type.check",), prepared=("@topic",))
async def type_mismatch(fixture: Fixture) -> None:
    """A NORMAL topic refuses transactional messages."""
    topic = await fixture.topic(1)
    producer = await fixture.producer(topic)
    half = fixture.message(topic, "m", kind=pb.MessageType.TRANSACTION)
    reply = await producer.send(half)
    assert code_of(reply) == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"


@case("tx.recovery-too-long", rules=("4.1",), level=SHOULD, needs=("type.tx",), prepared=("@topic",))
async def recovery_too_long(fixture: Fixture) -> None:
    """A recovery duration above one hour is refused with BAD_REQUEST, one hour is accepted."""
    topic = await fixture.topic(1, type="TRANSACTION")
    producer = await fixture.producer(topic)
    for seconds, code in ((3600.0, "OK"), (3601.0, "BAD_REQUEST")):
        half = fixture.message(topic, "m", kind=pb.MessageType.TRANSACTION)
        requests.duration(half.system_properties.orphaned_transaction_recovery_duration, seconds)
        reply = await producer.send(half)
        assert code_of(reply) == code, f"{seconds:g} s: {code_of(reply)}"


@case("tx.delayed-commit-filter", rules=("5.6", "R9.14"), level=SHOULD, needs=NEEDS)
async def filtered(fixture: Fixture) -> None:
    """A consumer's filter applies to committed messages as to others."""
    tx = await open_transactions(fixture, expression="a")
    matching, unwanted = await tx.prepare("a", tag="a"), await tx.prepare("b", tag="b")
    for half in (*unwanted, *matching):
        assert await tx.end(half, COMMIT) == "OK"
    once_each(matching, await tx.consumer.receive_for(5.0, settle=True))


@case("tx.simple-consumer", rules=("9.1", "R6.5"), needs=NEEDS)
async def simple_consumer(fixture: Fixture) -> None:
    """Ten committed messages are received and acked, and not redelivered."""
    tx = await open_transactions(fixture)
    halves = await tx.prepare(*(f"m{n}" for n in range(10)))
    for half in halves:
        assert await tx.end(half, COMMIT) == "OK"
    once_each(halves, await tx.consumer.take(10, within=30.0, invisible=LEASE))
    await tx.expect_nothing(LEASE + fixture.number("revive.high"))


@case("tx.retry-like-normal", rules=("R7.1", "R9.14"), needs=NEEDS, timeout=150.0)
async def retry_like_normal(fixture: Fixture) -> None:
    """A committed message that is not acked is redelivered as attempt 2, without further checks."""
    tx = await open_transactions(fixture)
    checker = await tx.checker(always(ROLLBACK))
    (half,) = await tx.prepare("m")
    assert await tx.end(half, COMMIT) == "OK"
    first = await tx.consumer.one(invisible=LEASE)
    redelivery = await tx.consumer.find(half, within=60.0)
    assert (first.attempt, redelivery.attempt) == (1, 2)
    expiry_window(fixture.target, LEASE).check_return(first, redelivery)
    assert not checker.of(half.id), "a committed message was checked"


@case("tx.properties-kept", rules=("R9.14", "R4.4"), level=SHOULD, needs=NEEDS)
async def properties_kept(fixture: Fixture) -> None:
    """A committed message has the body, tag, keys, properties and born time of its half message."""
    tx = await open_transactions(fixture)
    (half,) = await tx.prepare("body", tag="a", keys=["k1", "k2"], properties={"x": "1", "y": "é"})
    assert await tx.end(half, COMMIT) == "OK"
    delivery = await tx.consumer.one()
    system = delivery.message.system_properties
    assert (delivery.id, delivery.text, system.tag, list(system.keys)) == (half.id, "body", "a", ["k1", "k2"])
    assert {key: delivery.message.user_properties[key] for key in ("x", "y")} == {"x": "1", "y": "é"}
    if abs(delivery.born_at - half.wall) > 1.0:
        raise Inconclusive(
            f"born at {delivery.born_at}, sent at {half.wall}: the clocks of both sides differ"
        )
