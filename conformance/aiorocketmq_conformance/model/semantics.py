"""The choices and numbers that the model takes from a target's declaration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

AGE_OF_CHECKED = 3.0
"""Some servers count the age of a half message from its birth, in whole seconds."""


@dataclass(frozen=True, slots=True)
class Semantics:
    """What differs between the documents and servers; times are seconds."""

    early: float
    """A delivery may be early by this."""
    revive: tuple[float, float]
    """When a message of a normal group is visible again, counted from the expiry of its lease."""
    nack: tuple[float, float]
    """The same, counted from the duration of a change."""
    ordered: tuple[float, float]
    """The same of ordered groups, of expiry and change."""
    wake: float
    """A poll is answered within this after a message is visible."""
    poll_late: float
    """An empty poll ends by its time plus this."""
    delay_late: float
    route_late: float
    invisible_max: float
    batch_max: int
    order_by_queue: bool
    """An un-acked message of an ordered group blocks its queue, not only its message group."""
    checks_leases: bool
    """A handle is good while its lease is alive; else any well-formed handle is good until it expires."""
    misses_changed: bool
    """An ack with a changed or renewed handle settles nothing unless its message was the first that its receive read
    in the queue."""
    starts_at_creation: bool
    """A new group gets what is stored after its creation; else whole queues."""
    keeps_position: bool
    """A redelivery has the queue and offset of the first delivery."""
    exhausted_end_polls: bool
    """A poll ends empty at once if all that it found is given up."""
    batches_are_whole: bool
    """Messages of a batch keep their ids and properties, so that histories may contain batches."""
    batch_is_one_block: bool
    """All messages of a batch have the birth time of the first one, as measured on 5.5.0."""
    resets_wake: bool
    """A parked poll notices a reset of its group."""
    immunity: float
    """A half message is not checked earlier than this after its send."""
    check_interval: float
    recall_margin: float
    """A recall nearer to the delivery time than this may be refused."""
    transaction_memory: float
    """A decision is accepted this long after the send or the last check."""
    expiry: float = 120.0
    """A silent client is forgotten after this."""
    renewed: float = 60.0
    """The first length of a renewed lease."""
    renew_ahead: float = 10.0
    """A lease is renewed this long before its end."""
    renewals: tuple[float, ...] = (60.0, 180.0, 300.0, 600.0, 1800.0, 3600.0)
    """Length of the first, second, … renewal; the last repeats."""
    renews: bool = True
    """The server renews leases of receives with `auto_renew`."""

    def slower(self, seconds: float) -> Semantics:
        """Return the semantics of a machine on which calls took up to so many seconds."""
        return replace(
            self,
            revive=(self.revive[0], self.revive[1] + seconds),
            nack=(self.nack[0], self.nack[1] + seconds),
            ordered=(self.ordered[0], self.ordered[1] + seconds),
            wake=self.wake + seconds,
            poll_late=self.poll_late + seconds,
            delay_late=self.delay_late + seconds,
        )

    def rest_of_renewed(self, age: float) -> float:
        """Return how long a renewed lease of an age lasts if it is not renewed again."""
        end, number = self.renewed, 0
        while age >= end - self.renew_ahead:
            end += self.renewals[min(number, len(self.renewals) - 1)] - self.renew_ahead
            number += 1
        return end - age


def semantics_of(numbers: Mapping[str, float | int | str]) -> Semantics:
    """Return the semantics of a target by its declared numbers."""

    def number(name: str) -> float:
        return float(numbers[name])

    return Semantics(
        early=number("early"),
        revive=(number("revive.low"), number("revive.high")),
        nack=(number("nack.low"), number("nack.high")),
        ordered=(0.0, number("revive.ordered.high")),
        wake=number("wake.high"),
        poll_late=number("poll.late"),
        delay_late=number("delay.high"),
        route_late=number("route.high"),
        invisible_max=number("invisible.max"),
        batch_max=int(number("batch.max")),
        order_by_queue=numbers["order.grain"] == "queue",
        checks_leases=numbers["handle.checks"] == "lease",
        misses_changed=numbers["change.settles"] == "first",
        starts_at_creation=numbers["group.start"] == "creation",
        keeps_position=numbers["retry.position"] == "kept",
        exhausted_end_polls=numbers["poll.exhausted"] == "ends",
        batches_are_whole=numbers["batch.contents"] == "each",
        batch_is_one_block=numbers["batch.receipt"] == "one",
        resets_wake=numbers["reset.wakes"] == "yes",
        immunity=number("tx.immunity") - AGE_OF_CHECKED,
        check_interval=number("tx.interval"),
        recall_margin=number("recall.margin"),
        transaction_memory=number("tx.memory"),
    )
