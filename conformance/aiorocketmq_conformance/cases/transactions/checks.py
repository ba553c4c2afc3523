"""Checks of unresolved transactions: the rest of inventory 4.5."""

from __future__ import annotations

import itertools

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import INFORMATIONAL, SHOULD, case
from aiorocketmq_conformance.cases.shared.transactions import NEEDS, always, open_transactions
from aiorocketmq_conformance.fixture import Fixture, once_each
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.checker import COMMIT, ROLLBACK, Check, beat
from aiorocketmq_conformance.verdicts import Inconclusive, NotApplicable

HOUR = 3600.0


@case("tx.check-arrives", rules=("R9.6", "R9.10"), needs=NEEDS, timeout=200.0)
async def check_arrives(fixture: Fixture) -> None:
    """The producer of an unresolved half message gets a check with its message and transaction id."""
    tx = await open_transactions(fixture, needs_checks=True)
    checker = await tx.checker(always(None))
    (half,) = await tx.prepare("m")
    await tx.expect_checks(checker, 1)
    (check,) = checker.checks
    assert (check.id, check.transaction_id) == (half.id, half.receipt.transaction_id)
    waited = check.at - half.at
    assert waited >= fixture.number("tx.immunity") - fixture.number("early"), f"checked after {waited:.1f} s"
    fixture.note("first check after", round(waited, 1))


@case("tx.check-commit", rules=("R9.6", "R2.3"), needs=NEEDS, timeout=300.0)
async def check_commit(fixture: Fixture) -> None:
    """Ten unresolved half messages are delivered once each when a checker commits them that has replaced its stream by
    a newer one."""
    tx = await open_transactions(fixture, needs_checks=True)
    await tx.producer.open_stream()
    await tx.producer.send_settings(requests.producer_settings(tx.topic))
    await tx.producer.close_streams(1)
    checker = await tx.checker(always(COMMIT))
    halves = await tx.prepare(*(f"m{n}" for n in range(10)))
    await tx.expect_checks(checker, 10)
    once_each(halves, await tx.consumer.take(10, within=30.0))


@case("tx.check-rollback", rules=("R9.6",), needs=NEEDS, timeout=400.0)
async def check_rollback(fixture: Fixture) -> None:
    """Ten half messages that a checker rolls back are never delivered, and checks stop."""
    tx = await open_transactions(fixture, needs_checks=True)
    checker = await tx.checker(always(ROLLBACK))
    await tx.prepare(*(f"m{n}" for n in range(10)))
    await tx.expect_checks(checker, 10)
    assert not await tx.consumer.receive_for(1.2 * tx.interval)
    count = len(checker.checks)
    await tx.expect_nothing(1.2 * tx.interval)
    assert len(checker.checks) == count, "checked again after the rollback"


@case("tx.check-partial", rules=("R9.6",), needs=NEEDS, timeout=400.0)
async def check_partial(fixture: Fixture) -> None:
    """Of ten half messages exactly those are delivered that the checker commits."""
    tx = await open_transactions(fixture, needs_checks=True)

    def decide(check: Check) -> int:
        return COMMIT if int(check.message.body.decode()) % 2 == 0 else ROLLBACK

    checker = await tx.checker(decide)
    halves = await tx.prepare(*map(str, range(10)))
    await tx.expect_checks(checker, 10)
    once_each(halves[::2], await tx.deliveries_within(15.0))


@case("tx.check-unknown-repeats", rules=("R9.6", "R9.13"), needs=NEEDS, timeout=400.0)
async def check_unknown_repeats(fixture: Fixture) -> None:
    """A check that is answered with an unknown resolution or not at all is repeated after each interval, until a commit
    delivers the message."""
    tx = await open_transactions(fixture, needs_checks=True)
    checks: list[Check] = []
    answers = iter((pb.TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED, None, COMMIT))

    def decide(check: Check) -> int | None:
        checks.append(check)
        return next(answers, None)

    checker = await tx.checker(decide)
    (half,) = await tx.prepare("m")
    await tx.expect_checks(checker, 3)
    gaps = [later.at - earlier.at for earlier, later in itertools.pairwise(checks)]
    assert min(gaps) >= tx.interval - 1.5, f"checked again after {min(gaps):.1f} s"
    once_each([half], await tx.consumer.take(1))


@case("tx.commit-after-unknown", rules=("R9.1", "R9.13"), level=SHOULD, needs=NEEDS, timeout=200.0)
async def commit_after_unknown(fixture: Fixture) -> None:
    """After a check that was answered with an unknown resolution, the decision that the send allows is still free."""
    tx = await open_transactions(fixture, needs_checks=True)
    checker = await tx.checker(always(pb.TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED))
    (half,) = await tx.prepare("m")
    await tx.expect_checks(checker, 1)
    waited = fixture.clock.now() - half.at
    if waited > fixture.number("tx.memory") - 3.0:
        raise Inconclusive(f"the first check came after {waited:.0f} s, when the send allowed none any more")
    await fixture.clock.sleep(1.0)
    assert await tx.end(half, COMMIT) == "OK"
    once_each([half], await tx.consumer.take(1))


@case("tx.check-gives-up", rules=("R9.7",), level=SHOULD, needs=NEEDS, timeout=1000.0)
async def check_gives_up(fixture: Fixture) -> None:
    """Unknown resolutions are checked up to the server's limit; then checks stop, and nothing is delivered."""
    limit = int(fixture.numbers.get("tx.checks", 0))
    if not limit:
        raise NotApplicable("the target gives up after hours only")
    tx = await open_transactions(fixture, needs_checks=True)
    # Lost checks count, and a separate proxy registers new producers with its broker every 20 s only.
    (witness,) = await tx.prepare("witness")
    checker = await tx.checker(lambda check: ROLLBACK if check.id == witness.id else None)
    await tx.expect_checks(checker, 1, witness.id)
    (half,) = await tx.prepare("m")
    await tx.expect_last_check(checker, limit, half.id)
    await tx.expect_nothing(2.5 * tx.interval, "delivered without a commit")
    heard = checker.of(half.id)
    # A busy separate proxy may lose one, which the server has counted.
    unheard = set(range(1, limit)) - {check.number for check in heard} if heard[-1].number else set()
    fixture.note("checks that were lost", len(unheard))
    assert len(unheard) <= limit // 5, f"of {limit} checks these were lost: {sorted(unheard)}"
    total = len(heard) + len(unheard)
    assert total == limit, f"checked {total} times, the limit is {limit}"


@case("tx.check-content", rules=("R9.10",), needs=NEEDS, timeout=200.0)
async def check_content(fixture: Fixture) -> None:
    """A check contains the complete half message: id, topic, body, tag, keys, properties; and no receipt handle."""
    tx = await open_transactions(fixture, needs_checks=True)
    checker = await tx.checker(always(ROLLBACK))
    (half,) = await tx.prepare("body", tag="a", keys=["k1", "k2"], properties={"x": "1", "y": "é"})
    await tx.expect_checks(checker, 1)
    message = checker.checks[0].message
    system = message.system_properties
    assert (message.topic.name, message.body) == (tx.topic, b"body")
    assert (system.message_id, system.tag, list(system.keys)) == (half.id, "a", ["k1", "k2"])
    assert {key: message.user_properties[key] for key in ("x", "y")} == {"x": "1", "y": "é"}
    assert not system.receipt_handle, "a check has a receipt handle"


@case("tx.check-other-producer", rules=("R9.8",), needs=NEEDS, timeout=400.0)
async def check_other_producer(fixture: Fixture) -> None:
    """When the sender is gone, another producer of the topic is checked, and its commit delivers the message."""
    tx = await open_transactions(fixture, needs_checks=True)
    successor = await fixture.producer(tx.topic)
    sender = await fixture.producer(tx.topic)
    (half,) = await tx.prepare("m", client=sender)
    await sender.disconnect()
    await tx.producer.close()
    checker = await tx.checker(always(COMMIT), successor)
    # Producers are checked in turn, and a server may still try one that has just disconnected.
    await tx.within(tx.first_check + 2 * tx.interval, checker, 1, half.id)
    tx.producer = successor
    once_each([half], await tx.consumer.take(1))


@case("tx.check-no-producer", rules=("R9.8",), level=SHOULD, needs=NEEDS, timeout=400.0)
async def check_no_producer(fixture: Fixture) -> None:
    """Without producers for longer than an interval nothing is lost: the next one that connects is checked, and so is
    one that only had no stream."""
    tx = await open_transactions(fixture, needs_checks=True)
    cut = await open_transactions(fixture)
    (half,), left = await tx.prepare("m"), await cut.prepare("m")
    await tx.producer.close()
    await cut.producer.close_streams(0)
    fixture.background(beat(cut.producer))
    await fixture.clock.sleep(2 * tx.interval)
    successor = await fixture.producer(tx.topic)
    checker = await tx.checker(always(COMMIT), successor)
    await cut.producer.open_stream()
    await cut.producer.send_settings(requests.producer_settings(cut.topic))
    returned = await cut.checker(always(COMMIT))
    await tx.expect_checks(checker, 1, half.id)
    once_each([half], await tx.consumer.take(1))
    await cut.expect_checks(returned, 1)
    once_each(left, await cut.consumer.take(1))


@case("tx.check-reachable", rules=("R9.8",), level=SHOULD, needs=NEEDS, timeout=300.0)
async def check_reachable(fixture: Fixture) -> None:
    """Of several producers only those with a stream are checked: none of ten checks is an interval late because of
    another one without."""
    tx = await open_transactions(fixture, needs_checks=True)
    for _ in range(2):
        other = await fixture.producer(tx.topic)
        await other.close_streams(0)
        fixture.background(beat(other))
    checker = await tx.checker(always(COMMIT))
    halves = await tx.prepare(*(f"m{n}" for n in range(10)))
    await tx.expect_checks(checker, 10)
    times = [check.at for check in checker.checks[:10]]
    assert times[-1] - times[0] < tx.interval / 2, f"checked within {times[-1] - times[0]:.0f} s"
    once_each(halves, await tx.consumer.take(10, within=30.0))


@case("tx.no-check-when-resolved", rules=("R9.6",), needs=NEEDS, timeout=300.0)
async def no_check_when_resolved(fixture: Fixture) -> None:
    """A transaction that was resolved at once is not checked."""
    tx = await open_transactions(fixture, needs_checks=True)
    checker = await tx.checker(always(None))
    ended = await tx.prepare("committed", "rolled back")
    for half, resolution in zip(ended, (COMMIT, ROLLBACK), strict=True):
        assert await tx.end(half, resolution) == "OK"
    (sentinel,) = await tx.prepare("left open")
    await tx.expect_checks(checker, 1, sentinel.id)
    await fixture.clock.sleep(tx.interval)
    checked = {check.message.body for check in checker.checks}
    assert checked == {b"left open"}, f"checked: {checked}"


@case("tx.recovery-duration", rules=("R9.6",), level=SHOULD, needs=NEEDS, timeout=300.0)
async def recovery_duration(fixture: Fixture) -> None:
    """A half message with its own recovery duration is not checked earlier."""
    tx = await open_transactions(fixture, needs_checks=True)
    checker = await tx.checker(always(ROLLBACK))
    (half,) = await tx.prepare("m", recovery=15.0)
    await tx.within(15.0 + 2 * tx.interval + 5.0, checker, 1, half.id)
    waited = checker.checks[0].at - half.at
    assert waited >= 15.0 - fixture.number("early"), f"checked after {waited:.1f} s"


@case("tx.recovery-zero", rules=("R9.6",), level=SHOULD, needs=NEEDS, timeout=300.0)
async def recovery_zero(fixture: Fixture) -> None:
    """Half messages whose own recovery duration is zero are checked at the next occasion, however young."""
    tx = await open_transactions(fixture, needs_checks=True)
    checker = await tx.checker(always(ROLLBACK))
    sent: dict[str, float] = {}
    begun = fixture.clock.now()
    while not checker.checks:
        (half,) = await tx.prepare(f"m{len(sent)}", recovery=0.0)
        sent[half.id] = half.at
        await fixture.clock.sleep(1.0)
        waited = fixture.clock.now() - begun
        assert waited < 2 * tx.interval + 5.0, f"no check within {waited:.0f} s"
    await tx.within(10.0, checker, max(1, len(sent) - 2), None)
    youngest = min(check.at - sent[check.id] for check in checker.checks)
    assert youngest < fixture.number("tx.immunity") / 2, f"checked after {youngest:.1f} s at the earliest"


@case("tx.end-after-recovery", rules=("R9.3",), level=INFORMATIONAL, needs=NEEDS, timeout=300.0)
async def end_after_recovery(fixture: Fixture) -> None:
    """A commit after the message's own recovery duration is accepted."""
    tx = await open_transactions(fixture)
    (half,) = await tx.prepare("m", recovery=1.0)
    await fixture.clock.sleep(3.0)
    fixture.note("commit", await tx.end(half, COMMIT))
    once_each([half], await tx.consumer.receive_for(5.0, settle=True))


@case("tx.commit-again-after-check", rules=("R9.11",), level=INFORMATIONAL, needs=NEEDS, timeout=300.0)
async def commit_again_after_check(fixture: Fixture) -> None:
    """A producer that commits twice, once before and once in answer to a check, has its message delivered once."""
    tx = await open_transactions(fixture, needs_checks=True)
    checker = await tx.checker(always(None))
    (half,) = await tx.prepare("m")
    await tx.expect_checks(checker, 1)
    answers = [await tx.end(half, COMMIT, from_check=True), await tx.end(half, COMMIT)]
    fixture.note("answers", " ".join(answers))
    fixture.note("second commit after send", round(fixture.clock.now() - half.at, 1))
    once_each([half], await tx.deliveries_within(6.0))


@case(
    "tx.born-time",
    rules=("R9.12",),
    level=INFORMATIONAL,
    needs=NEEDS,
    timeout=300.0,
    params={"absent": None, "hour-ago": -HOUR, "days-ago": -80 * HOUR, "future": 60.0},
)
async def born_time(fixture: Fixture, shift: float | None) -> None:
    """A half message whose born time is {} is checked like others."""
    tx = await open_transactions(fixture, needs_checks=True)
    checker = await tx.checker(always(ROLLBACK))
    (half,) = await tx.prepare("m", born_at=fixture.clock.wall() + (shift or 0.0))
    if shift is None:
        await tx.end(half, ROLLBACK)
        half.message.system_properties.ClearField("born_timestamp")
        half.message.system_properties.message_id += "0"
        half = await fixture.send_message(half.message, tx.producer)
    await tx.expect_checks(checker, 1, half.id)
    fixture.note("first check after", round(checker.of(half.id)[0].at - half.at, 1))


@case("tx.restart-open-half", rules=("R12.7", "R9.6"), needs=(*NEEDS, "@restart"), timeout=500.0)
async def restart_open_half(fixture: Fixture) -> None:
    """A half message that is unresolved at a restart is checked afterwards, and delivered once when it is
    committed."""
    tx = await open_transactions(fixture, needs_checks=True)
    (half,) = await tx.prepare("m")
    await tx.producer.disconnect()
    await fixture.target.restart()
    tx.producer = await fixture.producer(tx.topic)
    checker = await tx.checker(always(COMMIT))
    await tx.within(2 * tx.first_check, checker, 1, half.id)
    consumer = await fixture.consumer(tx.topic, group=tx.consumer.group, prime=False)
    once_each([half], await consumer.take(1, within=60.0))


@case("tx.delivery-time", rules=("R4.27",), level=INFORMATIONAL, needs=NEEDS, timeout=120.0)
async def delivery_time(fixture: Fixture) -> None:
    """A committed message with a delivery time five seconds ahead is delivered, and not before its time."""
    tx = await open_transactions(fixture)
    due = fixture.clock.wall() + 5.0
    (half,) = await tx.prepare("m", deliver_at=due)
    fixture.note("recall handle", bool(half.receipt.recall_handle))
    assert await tx.end(half, pb.TransactionResolution.COMMIT) == "OK"
    deliveries = await tx.deliveries_within(45.0)
    once_each([half], deliveries)
    assert deliveries[0].at >= half.at + 5.0 - 0.1, f"delivered after {deliveries[0].at - half.at:.1f} s"
