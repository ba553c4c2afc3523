"""Acknowledgements, changes of leases and forwards: what each handle may be answered with, and what follows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import Enum
from functools import partial

from aiorocketmq_conformance.model.calls import OK, UNKNOWN, Ack, Change, Forward, Instant, Occurrence
from aiorocketmq_conformance.model.knowledge import Act, Knowledge
from aiorocketmq_conformance.model.sending import SERVER_FAULTS
from aiorocketmq_conformance.model.state import FOREVER, Copy, Interval, Lease, Reading

INVALID = "INVALID_RECEIPT_HANDLE"
MILLISECOND = 0.001


class State(Enum):
    """The state of a handle when it is used."""

    GOOD = "unexpired"
    SETTLED = "already settled"
    EXPIRED = "expired"
    REPLACED = "replaced by a change"
    FOREIGN = "unknown, or of another group or topic"
    UNCLEAR = "unclear"
    """Near the end of the lease, or after a reset."""


class Settling:
    """Calls with receipt handles."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._changing: dict[Instant, tuple[State, float]] = {}
        """When a change began: the state of its handle, and the earliest end of the lease, which the change moves."""
        self._using: Counter[str] = Counter()
        """Calls in progress by handle, apart from those that are refused."""

    def acts(self, event: Occurrence) -> Iterator[Act]:
        """Yield what is judged at which steps of an event."""
        match event:
            case Ack():
                yield event.begun.step, partial(self.begin_ack, event)
                yield event.ended.step, partial(self.end_ack, event)
            case Change():
                yield event.begun.step, partial(self.begin_change, event)
                yield event.ended.step, partial(self.end_change, event)
            case Forward():
                yield event.begun.step, partial(self.begin_forward, event)
                yield event.ended.step, partial(self.end_forward, event)

    def state_of(self, call: Ack | Change | Forward, id_: str, handle: str, ended: Instant) -> State:
        """Return the state of a handle from the begin of a call until `ended`."""
        recorded = self._knowledge.leases.get(handle)
        if recorded is None or recorded[:2] != (call.group, call.topic) or recorded[2].message.id != id_:
            return State.FOREIGN
        _, _, copy, lease = recorded
        if lease.is_dropped or copy.is_free:
            return State.UNCLEAR
        margin = self._knowledge.semantics.early
        if lease.settled is not None:
            return State.SETTLED
        if not self._knowledge.semantics.checks_leases and not lease.handles[handle]:
            return State.REPLACED  # good until the time that it names itself
        # A server that was paused at the end of a lease may see the call first.
        if call.begun.at > self._knowledge.after_pauses(lease.end).high + margin:
            # A lease of a client that left ends before the time that its handle names.
            named = lease.delivery.at.at + lease.receive.invisible
            is_named = not self._knowledge.semantics.checks_leases and call.begun.at <= named + margin
            return State.UNCLEAR if is_named else State.EXPIRED
        if ended.at >= lease.end.low - margin or copy.lease is not lease:
            return State.UNCLEAR
        if lease.receive.auto_renew and not lease.was_changed and call.client != lease.receive.client:
            # A renewal makes a new handle, which the proxy knows for the client of the receive only (R7.8).
            return State.UNCLEAR
        return State.GOOD if lease.handles[handle] else State.REPLACED

    def _begin_use(self, handle: str, code: str) -> None:
        self._using[handle] += code in {OK, *SERVER_FAULTS}

    def _end_use(self, state: State, handle: str, code: str) -> State:
        """Return the state of a handle: if it is refused, another call in progress may have used it up already."""
        self._using[handle] -= code in {OK, *SERVER_FAULTS}
        is_overtaken = state is State.GOOD and code == INVALID and self._using[handle] > 0
        return State.UNCLEAR if is_overtaken else state

    # Acks

    def begin_ack(self, ack: Ack) -> None:
        """From its begin on, an ack may have settled its messages."""
        for (id_, handle), code in zip(ack.entries, _codes(ack), strict=True):
            self._begin_use(handle, code)
            self._may_settle(ack.group, ack.topic, id_, handle, ack.begun)

    def end_ack(self, ack: Ack) -> None:
        """Judge each entry on its own, and the code of the whole response."""
        report = self._knowledge.report
        states = [self.state_of(ack, id_, handle, ack.ended) for id_, handle in ack.entries]
        codes = _codes(ack)
        if ack.code != UNKNOWN and ack.codes and len(ack.codes) != len(ack.entries):
            text = f"an ack of {len(ack.entries)} entries was answered with {len(ack.codes)}"
            report("ack", text, ack.ended)
        if ack.codes and ack.code != (ack.codes[0] if len(set(ack.codes)) == 1 else "MULTIPLE_RESULTS"):
            report("ack", f"entries {', '.join(ack.codes)} were answered with {ack.code} in all", ack.ended)
        if ack.echoed is not None and ack.codes and ack.echoed != ack.entries:
            report("ack", "the entries of the response are not those of the request", ack.ended)
        taken: set[str] = set()
        for (id_, handle), state, code in zip(ack.entries, states, codes, strict=True):
            state = self._end_use(state, handle, code)
            # A handle that occurs twice in one request is settled by its first entry.
            state = State.SETTLED if handle in taken and state is State.GOOD else state
            taken.add(handle)
            allowed = self._ack_codes(state)
            if code not in allowed and code not in SERVER_FAULTS:
                text = f"an ack with a handle that is {state.value} was answered with {code}, not {_list(allowed)}"
                report("ack", text, ack.ended, id_)
            self._end_settling(handle, state, code, ack.begun, ack.ended)
            self._reach_twin(ack, id_, handle, state, code)

    def _ack_codes(self, state: State) -> set[str]:
        if state is State.GOOD:
            return {OK}
        if state in (State.SETTLED, State.UNCLEAR):
            return {OK, INVALID}
        if state is State.EXPIRED or self._knowledge.semantics.checks_leases:
            return {INVALID}
        return {OK, INVALID}

    # Forwards

    def begin_forward(self, forward: Forward) -> None:
        """From its begin on, a forward may have settled its message."""
        self._begin_use(forward.handle, forward.code)
        self._may_settle(forward.group, forward.topic, forward.message, forward.handle, forward.begun)

    def end_forward(self, forward: Forward) -> None:
        """Judge a forward to the dead letters."""
        state = self.state_of(forward, forward.message, forward.handle, forward.ended)
        state = self._end_use(state, forward.handle, forward.code)
        if self._knowledge.semantics.checks_leases:
            allowed = {State.GOOD: {OK}, State.UNCLEAR: {OK, INVALID}}.get(state, {INVALID})
        else:
            allowed = {OK} if state is State.GOOD else {OK, INVALID}
        if forward.code not in allowed and forward.code not in SERVER_FAULTS:
            text = f"a forward with a handle that is {state.value} was answered with {forward.code}"
            self._knowledge.report("forward", f"{text}, not {_list(allowed)}", forward.ended, forward.message)
        self._end_settling(forward.handle, state, forward.code, forward.begun, forward.ended, is_forward=True)
        self._reach_twin(forward, forward.message, forward.handle, state, forward.code)

    # Changes

    def begin_change(self, change: Change) -> None:
        """From its begin on, a change may have ended the old lease."""
        self._begin_use(change.handle, change.code)
        recorded = self._knowledge.leases.get(change.handle)
        state = self.state_of(change, change.message, change.handle, change.begun)
        self._changing[change.begun] = state, FOREVER if recorded is None else recorded[3].end.low
        if (
            recorded is not None
            and state in (State.GOOD, State.UNCLEAR)
            and change.code in {OK, *SERVER_FAULTS}
        ):
            lease = recorded[3]
            new = change.begun.at + change.seconds
            lease.end = Interval(min(lease.end.low, new), max(lease.end.high, new))

    def end_change(self, change: Change) -> None:
        """Judge a change, and move the end of the lease."""
        report, semantics = self._knowledge.report, self._knowledge.semantics
        recorded = self._knowledge.leases.get(change.handle)
        state, end = self._changing.pop(change.begun)
        state = self._end_use(state, change.handle, change.code)
        if state is State.GOOD and change.ended.at >= end - semantics.early:
            state = State.UNCLEAR  # the lease may have ended before the server saw the call
        if state is State.GOOD and recorded is not None and not recorded[3].handles[change.handle]:
            state = State.UNCLEAR  # another change has replaced it meanwhile
        allowed = self._change_codes(state, change.seconds)
        if change.code not in allowed and change.code not in SERVER_FAULTS:
            text = f"a change with a handle that is {state.value} was answered with {change.code}"
            report("change", f"{text}, not {_list(allowed)}", change.ended, change.message)
        has_moved = recorded is not None and recorded[3].end.high - recorded[3].end.low > semantics.early
        is_same = change.new_handle == "" or (change.new_handle == change.handle and has_moved)
        if change.code == OK and is_same and semantics.checks_leases:
            report("change", "a change was answered without a new handle", change.ended, change.message)
        if recorded is None or change.code not in {OK, *SERVER_FAULTS}:
            return
        self._reach_twin(change, change.message, change.handle, state, change.code)
        _, _, copy, lease = recorded
        if change.code != OK and state is State.EXPIRED:
            return
        if state is not State.GOOD or change.code != OK:
            # Also near the end of the lease: a server that answers with a fault may have done it before.
            copy.is_free = copy.is_free or change.code == OK or state in (State.GOOD, State.UNCLEAR)
        lease.end = Interval(change.begun.at + change.seconds, change.ended.at + change.seconds)
        lease.was_changed, lease.is_renewed = True, False
        self._knowledge.note_missed(change.group, copy, change.ended.at)
        lease.counts = True if not change.suspend else (False if semantics.checks_leases else None)
        if change.new_handle:
            lease.handles = {**dict.fromkeys(lease.handles, False), change.new_handle: True}
            self._knowledge.leases[change.new_handle] = recorded

    def _change_codes(self, state: State, seconds: float) -> set[str]:
        semantics = self._knowledge.semantics
        if seconds > semantics.invisible_max:
            return {"ILLEGAL_INVISIBLE_TIME"}
        if state is State.GOOD:
            return {OK}
        if state is State.EXPIRED or (semantics.checks_leases and state is not State.UNCLEAR):
            return {INVALID}
        return {OK, INVALID}

    # What follows

    def _may_settle(self, group: str, topic: str, id_: str, handle: str, begun: Instant) -> None:
        recorded = self._knowledge.leases.get(handle)
        if recorded is not None and (recorded[0], recorded[1], recorded[2].message.id) == (group, topic, id_):
            recorded[2].settling.append(begun)

    def _end_settling(
        self,
        handle: str,
        state: State,
        code: str,
        begun: Instant,
        ended: Instant,
        *,
        is_forward: bool = False,
    ) -> None:
        recorded = self._knowledge.leases.get(handle)
        if recorded is None:
            return
        copy, lease = recorded[2], recorded[3]
        if begun in copy.settling:
            copy.settling.remove(begun)
        self._knowledge.note_missed(recorded[0], copy, ended.at)
        is_possible = state is State.UNCLEAR and not lease.is_dropped and copy.lease is lease
        is_possible = is_possible and self._knowledge.semantics.checks_leases
        if code == OK and (state is State.GOOD or is_possible):
            settle(copy, lease, begun, ended)
            copy.is_forwarded = is_forward
        elif code in SERVER_FAULTS or (code == OK and state not in (State.SETTLED, State.FOREIGN)):
            copy.is_free = True
        if is_forward and code == OK and state is not State.GOOD:
            copy.has_lost_count = True

    def _reach_twin(
        self, call: Ack | Change | Forward, id_: str, handle: str, state: State, code: str
    ) -> None:
        """Free the group's own lease of a message that the handle of another group's delivery may have reached.

        A handle names its message and the time of its receive, not the group: servers that check its form only cannot
        tell it from one of a receive in the same millisecond."""
        recorded = self._knowledge.leases.get(handle)
        if recorded is None or state is not State.FOREIGN or code not in {OK, *SERVER_FAULTS}:
            return
        message, other = recorded[2].message, recorded[3].receive
        if self._knowledge.semantics.checks_leases or recorded[1] != call.topic or message.id != id_:
            return
        if self._knowledge.group(recorded[0]).ordered and not isinstance(call, Change):
            # Servers of Apache settle the message, and all before it, for a group that has not read its queue.
            self._knowledge.readings.setdefault((call.group, call.topic), Reading()).was_cut = True
        copy = self._knowledge.copy(call.group, call.topic, message)
        if copy.lease is not None:
            own = copy.lease.receive
            is_twin = (
                own.begun.at <= other.ended.at + MILLISECOND and other.begun.at <= own.ended.at + MILLISECOND
            )
            copy.is_free = copy.is_free or is_twin


def settle(copy: Copy, lease: Lease, begun: Instant, ended: Instant) -> None:
    """End a lease, and with it the consumption of its message."""
    lease.settled = begun
    lease.end = Interval(FOREVER, FOREVER)
    if copy.settled is None:
        copy.settled, copy.settled_by = begun, ended


def _codes(ack: Ack) -> tuple[str, ...]:
    return ack.codes if len(ack.codes) == len(ack.entries) else (ack.code,) * len(ack.entries)


def _list(codes: set[str]) -> str:
    return " or ".join(sorted(codes))
