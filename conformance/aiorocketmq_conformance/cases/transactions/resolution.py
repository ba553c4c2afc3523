"""What transactions promise as long as their producer ends them itself: inventory 4.5."""

from __future__ import annotations

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import INFORMATIONAL, SHOULD, case
from aiorocketmq_conformance.cases.shared.transactions import NEEDS, always, open_bank
from aiorocketmq_conformance.fixture import Fixture, once_each
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import code_of
from aiorocketmq_conformance.probe.checker import COMMIT, ROLLBACK, end_transaction
from aiorocketmq_conformance.probe.client import CallFailed
from aiorocketmq_conformance.probe.proxy import Meddling, meddling_proxy
from aiorocketmq_conformance.tolerances import PROMPT, expiry
from aiorocketmq_conformance.verdicts import Inconclusive

LEASE = 10.0
# Real seconds after which a producer gives up a call whose answer is lost.
PATIENCE = 1.0
_END = frozenset({"EndTransaction"})


@case("tx.half-invisible", rules=("9.1",), needs=NEEDS)
async def half_invisible(fixture: Fixture) -> None:
    """A half message has a transaction id and is not delivered while its transaction is open."""
    bank = await open_bank(fixture)
    (half,) = await bank.prepare("half")
    assert half.receipt.transaction_id, "the receipt has no transaction id"
    await bank.expect_nothing(5.0, "delivered before its transaction ended")


@case("tx.commit", rules=("9.1", "9.2", "R9.14"), needs=NEEDS, timeout=120.0)
async def commit(fixture: Fixture) -> None:
    """Ten committed messages are delivered once each, whatever a checker would have said."""
    bank = await open_bank(fixture)
    await bank.checker(always(ROLLBACK))
    halves = await bank.prepare(*(f"m{n}" for n in range(10)))
    for half in halves:
        assert await bank.end(half, COMMIT) == "OK"
    seen = await bank.consumer.take(10, within=30.0)
    once_each(halves, seen)
    assert {one.message.system_properties.message_type for one in seen} == {pb.MessageType.TRANSACTION}
    assert {one.attempt for one in seen} == {1}


@case("tx.rollback", rules=("9.1", "9.2"), needs=NEEDS, timeout=150.0)
async def rollback(fixture: Fixture) -> None:
    """Ten messages that were rolled back never come, also when a checker would have committed them."""
    bank = await open_bank(fixture)
    await bank.checker(always(COMMIT))
    for half in await bank.prepare(*(f"m{n}" for n in range(10))):
        assert await bank.end(half, ROLLBACK) == "OK"
    await bank.expect_nothing(60.0, "delivered after the rollback")


@case("tx.commit-twice", rules=("R9.1", "9.2"), needs=NEEDS)
async def commit_twice(fixture: Fixture) -> None:
    """A message that is committed twice is delivered once."""
    bank = await open_bank(fixture)
    (half,) = await bank.prepare("m")
    assert await bank.end(half, COMMIT) == "OK"
    fixture.note("second commit", await bank.end(half, COMMIT))
    seen = await bank.deliveries_within(5.0)
    once_each([half], seen)


@case("tx.commit-then-rollback", rules=("R9.1", "9.2"), needs=NEEDS)
async def commit_then_rollback(fixture: Fixture) -> None:
    """A committed message stays committed when it is rolled back afterwards."""
    bank = await open_bank(fixture)
    (half,) = await bank.prepare("m")
    assert await bank.end(half, COMMIT) == "OK"
    fixture.note("rollback", await bank.end(half, ROLLBACK))
    once_each([half], await bank.deliveries_within(5.0))


@case("tx.rollback-then-commit", rules=("R9.1", "9.2"), needs=NEEDS)
async def rollback_then_commit(fixture: Fixture) -> None:
    """A message that was rolled back is not delivered when it is committed afterwards."""
    bank = await open_bank(fixture)
    (half,) = await bank.prepare("m")
    assert await bank.end(half, ROLLBACK) == "OK"
    fixture.note("commit", await bank.end(half, COMMIT))
    await bank.expect_nothing(PROMPT, "the second decision won")


@case("tx.reply-lost", rules=("R9.1", "9.2", "R9.6"), needs=NEEDS, timeout=240.0)
async def reply_lost(fixture: Fixture) -> None:
    """Commits whose answers or requests are lost deliver once each, by themselves or through a check."""
    bank = await open_bank(fixture, needs_checks=True)
    halves = await bank.prepare(*(f"m{n}" for n in range(4)))
    for half, meddling in zip(halves, (Meddling(unanswered=_END), Meddling(lost=_END)) * 2, strict=True):
        proxy = meddling_proxy(fixture.target.endpoint, meddling)
        blind = await fixture.client(endpoint=await fixture.stack.enter_async_context(proxy))
        await blind.present(requests.producer_settings(bank.topic))
        answer = ""
        try:
            await end_transaction(blind, bank.topic, half.receipt.transaction_id, COMMIT, timeout=PATIENCE)
        except CallFailed as failed:
            answer = failed.code
        assert answer == "DEADLINE_EXCEEDED", f"the lost call ended with {answer or 'an answer'}"
        # So that nobody else is asked who would not be heard either.
        await blind.close()
    # Who cannot know asks again: one of those that arrived, one of those that did not.
    for half in halves[:2]:
        await bank.end(half, COMMIT)
    checker = await bank.checker(always(COMMIT))
    seen = await bank.consumer.take(4, within=bank.first_check + 2 * PROMPT)
    seen += await bank.consumer.watch(bank.interval, settle=True)
    fixture.note("checks", len(checker.checks))
    once_each(halves, seen)


@case("tx.end-blank-id", rules=("9.2",), level=SHOULD, needs=NEEDS)
async def end_blank_id(fixture: Fixture) -> None:
    """A decision without a transaction id is refused with INVALID_TRANSACTION_ID."""
    bank = await open_bank(fixture)
    (half,) = await bank.prepare("m")
    reply = await end_transaction(bank.producer, bank.topic, "", COMMIT, message_id=half.id)
    assert code_of(reply) == "INVALID_TRANSACTION_ID"


@case("tx.end-unknown-id", rules=("9.2",), level=SHOULD, needs=NEEDS)
async def end_unknown_id(fixture: Fixture) -> None:
    """A decision about a transaction that nobody began is refused, and nothing is delivered."""
    bank = await open_bank(fixture)
    (half,) = await bank.prepare("m")
    invented = half.receipt.transaction_id[::-1]
    answer = await bank.end(half, COMMIT, transaction_id=invented)
    assert answer != "OK", "a transaction that nobody began was committed"
    fixture.note("answer", answer)
    await bank.expect_nothing(3.0)


@case("tx.end-wrong-topic", rules=("R9.1", "9.2"), level=SHOULD, needs=NEEDS)
async def end_wrong_topic(fixture: Fixture) -> None:
    """A decision that names another topic is refused, delivers nothing there, and leaves the transaction open."""
    bank = await open_bank(fixture)
    other = await open_bank(fixture)
    (half,) = await bank.prepare("m")
    assert await bank.end(half, COMMIT, topic=other.topic) != "OK"
    await other.expect_nothing(3.0, "delivered in a topic it was not sent to")
    assert await bank.end(half, COMMIT) == "OK"
    once_each([half], await bank.consumer.take(1))


@case("tx.end-other-client", rules=("9.2",), level=SHOULD, needs=NEEDS)
async def end_other_client(fixture: Fixture) -> None:
    """Another producer of the topic may end a transaction, whatever message id it names."""
    bank = await open_bank(fixture)
    (half,) = await bank.prepare("m")
    heir = await fixture.producer(bank.topic)
    assert await bank.end(half, COMMIT, client=heir, message_id="another") == "OK"
    once_each([half], await bank.consumer.take(1))


@case("tx.end-unspecified", rules=("9.2",), level=SHOULD, needs=NEEDS)
async def end_unspecified(fixture: Fixture) -> None:
    """A decision that says neither commit nor rollback delivers nothing."""
    bank = await open_bank(fixture)
    (half,) = await bank.prepare("m")
    unspecified = pb.TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED
    fixture.note("answer", await bank.end(half, unspecified))
    await bank.expect_nothing(5.0)


@case("tx.end-late", rules=("R9.1",), level=INFORMATIONAL, needs=NEEDS, timeout=240.0)
async def end_late(fixture: Fixture) -> None:
    """A commit that comes when the proxy has forgotten the transaction (31 s, no check before) can be made up for
    in answer to a check."""
    bank = await open_bank(fixture, needs_checks=True)
    (half,) = await bank.prepare("m", recovery=90.0)
    await fixture.clock.sleep(31.0)
    fixture.note("late commit", await bank.end(half, COMMIT))
    checker = await bank.checker(always(COMMIT))
    if not await bank.consumer.watch(3.0):
        await bank.within(90.0 + 2 * bank.interval, checker, 1, half.id)
        once_each([half], await bank.consumer.take(1))


@case("tx.order-free", rules=("R9.14",), level=INFORMATIONAL, needs=NEEDS)
async def order_free(fixture: Fixture) -> None:
    """Halves that are committed in reverse come in the order of their commits."""
    bank = await open_bank(fixture)
    halves = await bank.prepare(*(f"m{n}" for n in range(10)))
    for half in reversed(halves):
        assert await bank.end(half, COMMIT) == "OK"
    seen = await bank.consumer.take(10, within=30.0)
    assert [one.id for one in seen] == [half.id for half in reversed(halves)]


@case("tx.type-mismatch", rules=("R4.5", "R4.27"), level=SHOULD, needs=("type.check",), prepared=("@topic",))
async def type_mismatch(fixture: Fixture) -> None:
    """A NORMAL topic takes no transactional message."""
    topic = await fixture.topic(1)
    producer = await fixture.producer(topic)
    half = requests.message(topic, "m", kind=pb.MessageType.TRANSACTION, born_at=fixture.clock.wall())
    reply = await producer.send(half)
    assert code_of(reply) == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"


@case("tx.recovery-too-long", rules=("4.1",), level=SHOULD, needs=("type.tx",), prepared=("@topic",))
async def recovery_too_long(fixture: Fixture) -> None:
    """A recovery duration above one hour is refused with BAD_REQUEST, one hour is taken."""
    topic = await fixture.topic(1, type="TRANSACTION")
    producer = await fixture.producer(topic)
    for seconds, code in ((3600.0, "OK"), (3601.0, "BAD_REQUEST")):
        half = requests.message(topic, "m", kind=pb.MessageType.TRANSACTION, born_at=fixture.clock.wall())
        requests.duration(half.system_properties.orphaned_transaction_recovery_duration, seconds)
        reply = await producer.send(half)
        assert code_of(reply) == code, f"{seconds:g} s: {code_of(reply)}"


@case("tx.delayed-commit-filter", rules=("5.6", "R9.14"), level=SHOULD, needs=NEEDS)
async def filtered(fixture: Fixture) -> None:
    """A consumer's filter applies to committed messages as to others."""
    bank = await open_bank(fixture, expression="a")
    wanted, unwanted = await bank.prepare("a", tag="a"), await bank.prepare("b", tag="b")
    for half in (*unwanted, *wanted):
        assert await bank.end(half, COMMIT) == "OK"
    once_each(wanted, await bank.consumer.watch(5.0, settle=True))


@case("tx.simple-consumer", rules=("9.1", "R6.5"), needs=NEEDS)
async def simple_consumer(fixture: Fixture) -> None:
    """Ten committed messages are received and acked, and stay away then."""
    bank = await open_bank(fixture)
    halves = await bank.prepare(*(f"m{n}" for n in range(10)))
    for half in halves:
        assert await bank.end(half, COMMIT) == "OK"
    once_each(halves, await bank.consumer.take(10, within=30.0, invisible=LEASE))
    await bank.expect_nothing(LEASE + fixture.number("revive.high"))


@case("tx.retry-like-normal", rules=("R7.1", "R9.14"), needs=NEEDS, timeout=150.0)
async def retry_like_normal(fixture: Fixture) -> None:
    """A committed message that is not acked comes again with attempt 2, and no producer is asked about it."""
    bank = await open_bank(fixture)
    checker = await bank.checker(always(ROLLBACK))
    (half,) = await bank.prepare("m")
    assert await bank.end(half, COMMIT) == "OK"
    first = await bank.consumer.one(invisible=LEASE)
    again = await bank.consumer.find(half, within=60.0)
    assert (first.attempt, again.attempt) == (1, 2)
    expiry(fixture.target, LEASE).check_return(first, again)
    assert not checker.of(half.id), "a producer was asked about a committed message"


@case("tx.properties-kept", rules=("R9.14", "R4.4"), level=SHOULD, needs=NEEDS)
async def properties_kept(fixture: Fixture) -> None:
    """A committed message has the body, tag, keys, properties and born time of its half."""
    bank = await open_bank(fixture)
    (half,) = await bank.prepare("body", tag="a", keys=["k1", "k2"], properties={"x": "1", "y": "é"})
    assert await bank.end(half, COMMIT) == "OK"
    seen = await bank.consumer.one()
    system = seen.message.system_properties
    assert (seen.id, seen.text, system.tag, list(system.keys)) == (half.id, "body", "a", ["k1", "k2"])
    assert {key: seen.message.user_properties[key] for key in ("x", "y")} == {"x": "1", "y": "é"}
    if abs(seen.born_at - half.wall) > 1.0:
        raise Inconclusive(f"born at {seen.born_at}, sent at {half.wall}: the clocks of both sides differ")
