"""What transactions promise when nobody ends them: the server asks, the rest of inventory 4.5."""

from __future__ import annotations

import itertools

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.case import INFORMATIONAL, SHOULD, case
from aiorocketmq_conformance.cases.shared.transactions import NEEDS, always, open_bank
from aiorocketmq_conformance.fixture import Fixture, once_each
from aiorocketmq_conformance.probe.checker import COMMIT, ROLLBACK, Check
from aiorocketmq_conformance.verdicts import NotApplicable

HOUR = 3600.0


@case("tx.check-arrives", rules=("R9.6", "R9.10"), needs=NEEDS, timeout=200.0)
async def check_arrives(fixture: Fixture) -> None:
    """The producer of a half message that nobody ended is asked about it, by message and transaction id."""
    bank = await open_bank(fixture, needs_checks=True)
    checker = await bank.checker(always(None))
    (half,) = await bank.prepare("m")
    await bank.expect_checks(checker, 1)
    (check,) = checker.checks
    assert (check.id, check.transaction_id) == (half.id, half.receipt.transaction_id)
    waited = check.at - half.at
    assert waited >= fixture.number("tx.immunity") - fixture.number("early"), f"asked after {waited:.1f} s"
    fixture.note("first check after", round(waited, 1))


@case("tx.check-commit", rules=("R9.6",), needs=NEEDS, timeout=300.0)
async def check_commit(fixture: Fixture) -> None:
    """Ten halves that nobody ended are delivered once each when a checker commits them."""
    bank = await open_bank(fixture, needs_checks=True)
    checker = await bank.checker(always(COMMIT))
    halves = await bank.prepare(*(f"m{n}" for n in range(10)))
    await bank.expect_checks(checker, 10)
    once_each(halves, await bank.consumer.take(10, within=30.0))


@case("tx.check-rollback", rules=("R9.6",), needs=NEEDS, timeout=400.0)
async def check_rollback(fixture: Fixture) -> None:
    """Ten halves that a checker rolls back never come, and the questions end."""
    bank = await open_bank(fixture, needs_checks=True)
    checker = await bank.checker(always(ROLLBACK))
    await bank.prepare(*(f"m{n}" for n in range(10)))
    await bank.expect_checks(checker, 10)
    assert not await bank.consumer.watch(1.2 * bank.interval)
    asked = len(checker.checks)
    await bank.expect_nothing(1.2 * bank.interval)
    assert len(checker.checks) == asked, "asked again about what was rolled back"


@case("tx.check-partial", rules=("R9.6",), needs=NEEDS, timeout=400.0)
async def check_partial(fixture: Fixture) -> None:
    """Of ten halves exactly those come that the checker commits."""
    bank = await open_bank(fixture, needs_checks=True)

    def decide(check: Check) -> int:
        return COMMIT if int(check.message.body.decode()) % 2 == 0 else ROLLBACK

    checker = await bank.checker(decide)
    halves = await bank.prepare(*map(str, range(10)))
    await bank.expect_checks(checker, 10)
    once_each(halves[::2], await bank.deliveries_within(15.0))


@case("tx.check-unknown-repeats", rules=("R9.6", "R9.13"), needs=NEEDS, timeout=400.0)
async def check_unknown_repeats(fixture: Fixture) -> None:
    """A checker that does not know is asked again after each interval, and its commit in the end delivers."""
    bank = await open_bank(fixture, needs_checks=True)
    asked: list[Check] = []

    def decide(check: Check) -> int | None:
        asked.append(check)
        return COMMIT if len(asked) == 3 else None

    checker = await bank.checker(decide)
    (half,) = await bank.prepare("m")
    await bank.expect_checks(checker, 3)
    gaps = [later.at - earlier.at for earlier, later in itertools.pairwise(asked)]
    assert min(gaps) >= bank.interval - 1.5, f"asked again after {min(gaps):.1f} s"
    once_each([half], await bank.consumer.take(1))


@case("tx.check-gives-up", rules=("R9.7",), level=SHOULD, needs=NEEDS, timeout=1000.0)
async def check_gives_up(fixture: Fixture) -> None:
    """A checker that never knows is asked up to the server's limit; then it is quiet, and nothing is delivered."""
    limit = int(fixture.numbers.get("tx.checks", 0))
    if not limit:
        raise NotApplicable("the target gives up after hours only")
    bank = await open_bank(fixture, needs_checks=True)
    # Checks count while nobody hears them, and a proxy of its own tells its broker of a new producer every 20 s only.
    (witness,) = await bank.prepare("witness")
    checker = await bank.checker(lambda check: ROLLBACK if check.id == witness.id else None)
    await bank.expect_checks(checker, 1, witness.id)
    (half,) = await bank.prepare("m")
    await bank.expect_last_check(checker, limit, half.id)
    await bank.expect_nothing(2.5 * bank.interval, "delivered although nobody committed it")
    heard = checker.of(half.id)
    # A busy proxy of its own loses one now and then; the server has asked all the same.
    unheard = set(range(1, limit)) - {check.number for check in heard} if heard[-1].number else set()
    fixture.note("checks that nobody heard", len(unheard))
    assert len(unheard) <= limit // 5, f"of {limit} checks nobody heard {sorted(unheard)}"
    asked = len(heard) + len(unheard)
    assert asked == limit, f"asked {asked} times, {limit} is the limit"


@case("tx.check-content", rules=("R9.10",), needs=NEEDS, timeout=200.0)
async def check_content(fixture: Fixture) -> None:
    """A check carries the half message whole: id, topic, body, tag, keys, properties; and no receipt handle."""
    bank = await open_bank(fixture, needs_checks=True)
    checker = await bank.checker(always(ROLLBACK))
    (half,) = await bank.prepare("body", tag="a", keys=["k1", "k2"], properties={"x": "1", "y": "é"})
    await bank.expect_checks(checker, 1)
    message = checker.checks[0].message
    system = message.system_properties
    assert (message.topic.name, message.body) == (bank.topic, b"body")
    assert (system.message_id, system.tag, list(system.keys)) == (half.id, "a", ["k1", "k2"])
    assert {key: message.user_properties[key] for key in ("x", "y")} == {"x": "1", "y": "é"}
    assert not system.receipt_handle, "a check is no delivery, but has a receipt handle"


@case("tx.check-other-producer", rules=("R9.8",), needs=NEEDS, timeout=400.0)
async def check_other_producer(fixture: Fixture) -> None:
    """When the sender has died, another producer of the topic is asked, and its commit delivers the message."""
    bank = await open_bank(fixture, needs_checks=True)
    heir = await fixture.producer(bank.topic)
    sender = await fixture.producer(bank.topic)
    (half,) = await bank.prepare("m", client=sender)
    await sender.vanish()
    await bank.producer.close()
    checker = await bank.checker(always(COMMIT), heir)
    # Which producer is asked goes in turn, and a server may try one that it does not know to be gone yet.
    await bank.within(bank.first_check + 2 * bank.interval, checker, 1, half.id)
    bank.producer = heir
    once_each([half], await bank.consumer.take(1))


@case("tx.check-no-producer", rules=("R9.8",), level=SHOULD, needs=NEEDS, timeout=400.0)
async def check_no_producer(fixture: Fixture) -> None:
    """With no producer there for longer than an interval nothing is lost: the next one that comes is asked."""
    bank = await open_bank(fixture, needs_checks=True)
    (half,) = await bank.prepare("m")
    await bank.producer.close()
    await fixture.clock.sleep(2 * bank.interval)
    heir = await fixture.producer(bank.topic)
    checker = await bank.checker(always(COMMIT), heir)
    await bank.expect_checks(checker, 1, half.id)
    once_each([half], await bank.consumer.take(1))


@case("tx.no-check-when-resolved", rules=("R9.6",), needs=NEEDS, timeout=300.0)
async def no_check_when_resolved(fixture: Fixture) -> None:
    """Nobody is asked about a transaction that was ended at once."""
    bank = await open_bank(fixture, needs_checks=True)
    checker = await bank.checker(always(None))
    ended = await bank.prepare("committed", "rolled back")
    for half, resolution in zip(ended, (COMMIT, ROLLBACK), strict=True):
        assert await bank.end(half, resolution) == "OK"
    (sentinel,) = await bank.prepare("left open")
    await bank.expect_checks(checker, 1, sentinel.id)
    await fixture.clock.sleep(bank.interval)
    asked = {check.message.body for check in checker.checks}
    assert asked == {b"left open"}, f"asked about {asked}"


@case("tx.recovery-duration", rules=("R9.6",), level=SHOULD, needs=NEEDS, timeout=300.0)
async def recovery_duration(fixture: Fixture) -> None:
    """A half message with its own recovery duration is not asked for earlier."""
    bank = await open_bank(fixture, needs_checks=True)
    checker = await bank.checker(always(ROLLBACK))
    (half,) = await bank.prepare("m", recovery=15.0)
    await bank.within(15.0 + 2 * bank.interval + 5.0, checker, 1, half.id)
    waited = checker.checks[0].at - half.at
    assert waited >= 15.0 - fixture.number("early"), f"asked after {waited:.1f} s"


@case("tx.end-after-recovery", rules=("R9.3",), level=INFORMATIONAL, needs=NEEDS, timeout=300.0)
async def end_after_recovery(fixture: Fixture) -> None:
    """A commit by the client after the message's own recovery duration counts."""
    bank = await open_bank(fixture)
    (half,) = await bank.prepare("m", recovery=1.0)
    await fixture.clock.sleep(3.0)
    fixture.note("commit", await bank.end(half, COMMIT))
    once_each([half], await bank.consumer.watch(5.0, settle=True))


@case("tx.commit-again-after-check", rules=("R9.11",), level=INFORMATIONAL, needs=NEEDS, timeout=300.0)
async def commit_again_after_check(fixture: Fixture) -> None:
    """A producer that commits twice, once before and once in answer to a check, has its message delivered once."""
    bank = await open_bank(fixture, needs_checks=True)
    checker = await bank.checker(always(None))
    (half,) = await bank.prepare("m")
    await bank.expect_checks(checker, 1)
    answers = [await bank.end(half, COMMIT, from_check=True), await bank.end(half, COMMIT)]
    fixture.note("answers", " ".join(answers))
    fixture.note("second commit after send", round(fixture.clock.now() - half.at, 1))
    once_each([half], await bank.deliveries_within(6.0))


@case(
    "tx.born-time",
    rules=("R9.12",),
    level=INFORMATIONAL,
    needs=NEEDS,
    timeout=300.0,
    params={"absent": None, "hour-ago": -HOUR, "days-ago": -80 * HOUR, "future": 60.0},
)
async def born_time(fixture: Fixture, shift: float | None) -> None:
    """A half message whose born time is {} is asked for like others."""
    bank = await open_bank(fixture, needs_checks=True)
    checker = await bank.checker(always(ROLLBACK))
    (half,) = await bank.prepare("m", born_at=fixture.clock.wall() + (shift or 0.0))
    if shift is None:
        await bank.end(half, ROLLBACK)
        half.message.system_properties.ClearField("born_timestamp")
        half.message.system_properties.message_id += "0"
        half = await fixture.send_message(half.message, bank.producer)
    await bank.expect_checks(checker, 1, half.id)
    fixture.note("first check after", round(checker.of(half.id)[0].at - half.at, 1))


@case("tx.restart-open-half", rules=("R12.7", "R9.6"), needs=(*NEEDS, "@restart"), timeout=500.0)
async def restart_open_half(fixture: Fixture) -> None:
    """A half message that is open over a restart is asked for afterwards, and delivered once when it is committed."""
    bank = await open_bank(fixture, needs_checks=True)
    (half,) = await bank.prepare("m")
    await bank.producer.vanish()
    await fixture.target.restart()
    bank.producer = await fixture.producer(bank.topic)
    checker = await bank.checker(always(COMMIT))
    await bank.within(2 * bank.first_check, checker, 1, half.id)
    consumer = await fixture.consumer(bank.topic, group=bank.consumer.group, prime=False)
    once_each([half], await consumer.take(1, within=60.0))


@case("tx.delivery-time", rules=("R4.27",), level=INFORMATIONAL, needs=NEEDS, timeout=120.0)
async def delivery_time(fixture: Fixture) -> None:
    """A committed message with a delivery time five seconds ahead is delivered, and not before its time."""
    bank = await open_bank(fixture)
    due = fixture.clock.wall() + 5.0
    (half,) = await bank.prepare("m", deliver_at=due)
    fixture.note("recall handle", bool(half.receipt.recall_handle))
    assert await bank.end(half, pb.TransactionResolution.COMMIT) == "OK"
    seen = await bank.deliveries_within(45.0)
    once_each([half], seen)
    assert seen[0].at >= half.at + 5.0 - 0.1, f"delivered after {seen[0].at - half.at:.1f} s"
