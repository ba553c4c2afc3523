"""Judges what applications saw: what the library and the broker promise together, whatever the network does.

Nothing acknowledged is lost and nothing unsent is delivered, always. What faults may break for a while (a message
handled twice, or beside itself, or too late) is judged only where no fault was felt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from aiorocketmq_conformance.model.calls import Receive

from tools.simulation.door import BrokerDoor
from tools.simulation.faults import Disturbance
from tools.simulation.ledger import OPEN, Handling, Ledger
from tools.simulation.network import SlowRetry
from tools.simulation.world import GroupPlan, World

FELT: Mapping[str, float] = {"half-open": 90.0, "vanish": 90.0, "jump": 60.0, "skew": 10.0}
"""Seconds for which a fault is felt after its end."""
USUALLY_FELT = 30.0
BREAKS = ("cut", "streams", "restart", "kill", "power")
"""Faults that break connections: clients notice them at once."""
SETTLED = 3.0
"""Seconds from the end of a handler until its outcome must be at the broker."""
EARLY = 0.05
"""Seconds by which a retry may come before its time."""
STARTED = 3.0
"""Seconds from the arrival of a message until its handler must run, if the consumer has a free slot."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A promise that was not kept."""

    rule: str
    text: str


class Promises:
    """All promises of one world, at its end."""

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        doors: Sequence[BrokerDoor],
        disturbances: Sequence[Disturbance],
        dead: Mapping[str, set[int]],
        slow_retries: Sequence[SlowRetry] = (),
    ) -> None:
        """`dead` are the dead letters by group."""
        self._slow_retries = slow_retries
        self._world = world
        self._ledger = ledger
        self._doors = doors
        self._disturbances = disturbances
        self._dead = dead
        self._members = {each.name: each for each in world.consumers}

    def must_be_consumed(self, group: GroupPlan) -> list[int]:
        """Return the messages that a group must get."""
        tags = {term.strip() for term in group.filter.split("||")}
        return [
            send.number
            for send in self._world.sends
            if send.topic == group.topic
            and ("*" in tags or send.tag in tags)
            and (sending := self._ledger.sendings.get(send.number)) is not None
            and (sending.truth == "commit" if send.outcome else sending.result == "ok")
        ]

    def missing(self) -> list[tuple[str, int]]:
        """Return groups with what they must still get."""
        return [
            (group.name, number)
            for group in self._world.groups
            for number in self.must_be_consumed(group)
            if not self._ledger.is_consumed(group.name, number) and number not in self._dead[group.name]
        ]

    def broken(self) -> Iterator[Broken]:
        """Yield every promise that was not kept."""
        yield from (Broken(rule, text) for rule, text in self._ledger.failures)
        yield from (
            Broken("lost", f"m{number} was never consumed by {group}") for group, number in self.missing()
        )
        yield from self._dead_letters()
        yield from self._send_order()
        yield from self._back_off()
        for group in self._world.groups:
            for send in self._world.sends:
                handlings = self._ledger.handlings.get((group.name, send.number), [])
                if handlings:
                    yield from self._handled(group, send.number, handlings)
            if group.ordered:
                yield from self._order(group)
            elif group.kind == "push":
                yield from self._waiting(group)

    def is_calm(self, begun: float, ended: float, *, but: Collection[str] = ()) -> bool:
        """Return whether no fault was felt between two moments, apart from some kinds."""
        return all(
            each.begun > ended
            or each.ended + FELT.get(each.plan.kind, USUALLY_FELT) < begun
            or each.plan.kind in but
            for each in self._disturbances
        )

    def _send_order(self) -> Iterator[Broken]:
        """Messages of one message group are stored in the order of the calls, always."""
        accepted, unclear = dict[str, float](), set[str]()
        for door in self._doors:
            unclear |= door.unclear
            for body, at in door.accepted.items():
                accepted[body] = min(at, accepted.get(body, at))
        plans = {send.number: send for send in self._world.sends}
        last = dict[tuple[int, str, int], str]()
        for number, sending in self._ledger.sendings.items():  # in the order of the calls
            plan, body = plans[number], f"m{number}"
            if plan.message_group is None or sending.result != "ok" or body in unclear:
                continue
            key = (plan.topic, plan.message_group, sending.life)
            before = last.get(key)
            if before is not None and accepted.get(body, OPEN) < accepted.get(before, 0.0):
                yield Broken("send order", f"{body} was stored before {before}, which was sent before it")
            last[key] = body

    def _back_off(self) -> Iterator[Broken]:
        """After a success, back-off begins again: the first failed poll is repeated soon."""
        for client, begun, failed, begun_again in self._slow_retries:
            member = self._members.get(client)
            if member is None or self._world.groups[member.group or 0].kind != "push":
                continue
            has_room = not any(
                begun <= at <= begun_again and one.client.partition("@")[0] == client
                for door in self._doors
                for at, one in door.arrivals
            )
            if has_room and self.is_calm(begun, begun_again, but=BREAKS):
                text = f"{client} polled again {begun_again - failed:.3f} s after a first failure at {failed:.3f}"
                yield Broken("back-off", text)

    def _stored(self, number: int) -> int:
        return sum(door.stored.get(f"m{number}", 0) for door in self._doors)

    def _dead_letters(self) -> Iterator[Broken]:
        """A message is given up only if its handler said so, or after the last attempt."""
        for group in self._world.groups:
            attempts = defaultdict[int, int](int)
            for door in self._doors:
                for _, one in door.arrivals:
                    if one.group == group.name:
                        number = int(one.body[1:])
                        attempts[number] = max(attempts[number], one.attempt)
            for number in self._dead[group.name]:
                handlings = self._ledger.handlings.get((group.name, number), [])
                was_given_up = any(each.result == "dead" for each in handlings)
                last = max([attempts[number], *(each.attempt for each in handlings)])
                if not was_given_up and last < group.max_attempts and not self._was_cut_short(group):
                    yield Broken(
                        "given up", f"m{number} is a dead letter of {group.name} after attempt {last}"
                    )

    def _was_cut_short(self, group: GroupPlan) -> bool:
        """Deliveries may have left no trace: their broker died with them."""
        return any(
            isinstance(event, Receive) and event.group == group.name and event.is_cut
            for door in self._doors
            for event in door.history
        )

    def _handled(self, group: GroupPlan, number: int, handlings: list[Handling]) -> Iterator[Broken]:
        sending = self._ledger.sendings[number]
        outcome = next(each.outcome for each in self._world.sends if each.number == number)
        if outcome and sending.truth != "commit":
            yield Broken("rollback", f"m{number} was handled by {group.name}, and not committed")
        # Servers with these profiles redeliver whole queues of ordered groups behind a message that is not
        # acknowledged, and store a message again that is committed again.
        is_again = any(f"m{number}" in each.committed_again for each in self._doors)
        redelivers = (group.ordered or is_again) and self._world.profile != "documented"
        is_copied = any((group.name, f"m{number}") in each.copied for each in self._doors)
        if self._stored(number) > 1 or redelivers or is_copied:
            return
        for first, second in pairwise(handlings):
            if not (self._keeps(group, first) and self._keeps(group, second)):
                continue
            if second.begun < first.ended and self.is_calm(first.begun - SETTLED, second.begun):
                yield Broken("beside", f"{_name(second)} while {_name(first)} ran")
            elif first.result == "ok" and self._is_undisturbed(
                first, second.begun if group.kind == "pull" else 0.0
            ):
                yield Broken("twice", f"{_name(second)} although {_name(first)} had succeeded")
            elif first.result in ("fail", "later") and group.kind == "push":
                steps = group.steps
                pause = 3.0 if first.result == "later" else steps[min(first.attempt, len(steps)) - 1]
                came = second.begun - first.ended
                end = self._members[first.client].end  # its retries are then released at once
                has_left = end is not None and second.begun >= end
                if (
                    not has_left
                    and came < pause - EARLY
                    and self.is_calm(first.begun - SETTLED, second.begun)
                ):
                    yield Broken("early", f"{_name(second)}, {came:.3f} s after a failure, not {pause:g}")

    def _is_undisturbed(self, handling: Handling, until: float) -> bool:
        """Return whether the end of a handler must have reached the broker, also if that takes until a moment: pull
        consumers commit whole batches.

        A broken connection alone does not matter, unless it may have interrupted a renewal of the lease, or the
        application was told that it broke off the settling."""
        arrived = max(
            (
                at
                for door in self._doors
                for at, one in door.arrivals
                if at <= handling.begun
                and one.body == f"m{handling.number}"
                and one.client.partition("@")[0] == handling.client
            ),
            default=0.0,
        )
        is_short = handling.ended - arrived < self._members[handling.client].invisible / 2 - SETTLED
        but = ("cut", "streams") if is_short and not handling.is_unsettled else ()
        return self.is_calm(arrived - SETTLED, max(handling.ended + SETTLED, until), but=but)

    def _keeps(self, group: GroupPlan, handling: Handling) -> bool:
        """Return whether the consumer keeps the lease while it handles the message."""
        return group.kind != "simple" or self._members[handling.client].keep_alive

    def _order(self, group: GroupPlan) -> Iterator[Broken]:
        numbers = [number for number in self.must_be_consumed(group) if self._stored(number) <= 1]
        by_key = defaultdict[tuple[str | None, int], list[int]](list)
        plans = {send.number: send for send in self._world.sends}
        for number, sending in self._ledger.sendings.items():  # in the order of the calls
            if number in numbers:
                by_key[plans[number].message_group, sending.life].append(number)
        for line in by_key.values():
            for before, after in pairwise(line):
                yield from self._pair(group, before, after)

    def _pair(self, group: GroupPlan, before: int, after: int) -> Iterator[Broken]:
        later = self._ledger.handlings.get((group.name, after), [])
        earlier = self._ledger.handlings.get((group.name, before), [])
        if not later:
            return
        done = [
            each.ended
            for each in earlier
            if each.result in ("ok", "dead") or each.attempt >= group.max_attempts
        ]
        began = min([later[0].begun, *(each.begun for each in earlier)])
        if not done and before in self._dead[group.name] and self._times(group, before) < group.max_attempts:
            return  # polls of clients that are gone have used its attempts up
        if min(done, default=OPEN) > later[0].begun and self.is_calm(began - SETTLED, later[0].begun):
            yield Broken("order", f"{_name(later[0])} before m{before} was done with")

    def _times(self, group: GroupPlan, number: int) -> int:
        """Return how often a message has arrived at consumers of a group."""
        arrivals = [one for door in self._doors for _, one in door.arrivals]
        return sum((one.group, one.body) == (group.name, f"m{number}") for one in arrivals)

    def _waiting(self, group: GroupPlan) -> Iterator[Broken]:
        """Whatever has arrived is handled at once if there is a free slot."""
        runs = defaultdict[str, list[Handling]](list)
        for handling in self._ledger.order:
            if handling.group == group.name:
                runs[handling.client].append(handling)
        for door in self._doors:
            for at, one in door.arrivals:
                if one.group != group.name or not self.is_calm(at - SETTLED, at + STARTED):
                    continue
                client, number = one.client.partition("@")[0], int(one.body[1:])
                member = self._members[client]
                begun = min(
                    (run.begun for run in runs[client] if run.number == number and run.begun >= at),
                    default=OPEN,
                )
                is_leaving = member.end is not None and at + STARTED > member.end
                if begun <= at + STARTED or is_leaving:
                    continue
                if not any(
                    sum(run.begun <= moment < run.ended for run in runs[client]) >= member.concurrency
                    for moment in (at + STARTED / 3, at + STARTED / 2, at + STARTED)
                ):
                    yield Broken("waiting", f"m{number} waited in {client} from {at:.3f} to {begun:.3f}")


def _name(handling: Handling) -> str:
    return (
        f"m{handling.number}/{handling.attempt} was handled by {handling.client} of {handling.group}"
        f" at {handling.begun:.3f}"
    )
