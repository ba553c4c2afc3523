"""Deliveries: which message a receive may be answered with, under which attempt, from which queue, in which order."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from aiorocketmq_conformance.model.calls import EVERYTHING, OK, START, Delivered, Occurrence, Receive
from aiorocketmq_conformance.model.knowledge import Act, Knowledge
from aiorocketmq_conformance.model.state import FOREVER, Copy, Interval, Lease, Reading, Sent

DUE = 0.002
"""Servers store times in milliseconds."""
EMPTY = frozenset({OK, "MESSAGE_NOT_FOUND"})


class Deliveries:
    """Responses to receives, message by message."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge

    def acts(self, event: Occurrence) -> Iterator[Act]:
        """Yield what is judged at which steps of an event."""
        if isinstance(event, Receive):
            yield event.begun.step, partial(self.begin_receive, event)
            for place, one in enumerate(event.deliveries):
                yield one.at.step, partial(self.deliver, event, place)
            yield event.ended.step, partial(self.end_receive, event)

    def begin_receive(self, receive: Receive) -> None:
        """Take note of the filter: what it rejects is skipped for good."""
        readings = self._knowledge.readings
        reading = readings.setdefault((receive.group, receive.topic), Reading())
        if receive.filter.is_lite:
            # What a client did not subscribe to waits; a group begins with the first message of each lite topic.
            reading.reads_whole = True
            reading.filters.add(EVERYTHING)
        else:
            reading.filters.add(receive.filter)
        reading.was_cut = reading.was_cut or receive.is_cut
        reading.has_died = reading.has_died or receive.has_died
        if receive.repeats and self._knowledge.group(receive.group).ordered:
            # What the client's lost response has leased may come now, or with one of its next receives.
            for (group, topic, _), copy in self._knowledge.copies.items():
                is_same = (group, topic) == (receive.group, receive.topic)
                if is_same and copy.lease is not None and copy.lease.receive.client == receive.client:
                    copy.is_free = True

    def end_receive(self, receive: Receive) -> None:
        """Judge code, number of messages and duration of a receive."""
        report, semantics = self._knowledge.report, self._knowledge.semantics
        if receive.is_cut:
            return
        if receive.deliveries and receive.code != OK:
            report("receive", f"messages arrived with the code {receive.code}", receive.ended)
        if not receive.deliveries and receive.code not in EMPTY:
            report("receive", f"a legal receive was answered with {receive.code}", receive.ended)
            return
        most = min(receive.batch, semantics.batch_max)
        if len(receive.deliveries) > most:
            text = f"a receive of at most {most} was answered with {len(receive.deliveries)} messages"
            report("receive", text, receive.ended)
        took = receive.ended.at - receive.begun.at
        is_early = not receive.deliveries and took < receive.poll - 0.2
        if is_early and not self._knowledge.may_drop(receive):
            report("poll", f"a poll of {receive.poll:g} s ended empty after {took:.3f} s", receive.ended)
        paused = self._knowledge.paused(receive.begun.at, receive.ended.at)
        if took > receive.poll + semantics.poll_late + paused:
            report("poll", f"a poll of {receive.poll:g} s took {took:.3f} s", receive.ended)

    def deliver(self, receive: Receive, place: int) -> None:
        """Judge one message of a response, and lease it."""
        one = receive.deliveries[place]
        message = self._knowledge.messages.get(one.content.id)
        if message is None:
            self._report("origin", "a message was delivered that nobody sent", one)
            return
        copy = self._knowledge.copy(receive.group, receive.topic, message)
        origin = self._knowledge.origin(receive.topic, message)
        self._knowledge.note_missed(receive.group, copy, one.at.at)
        copy.is_free = (
            copy.is_free
            or message.is_repeated
            or (receive.repeats and self._knowledge.group(receive.group).ordered)
            or (origin is not None and self._knowledge.dead_letters(*origin, one.at.at)[1] > 1)
            or self._knowledge.is_unclear(receive.group, receive.topic)
            or one.at.step < (copy.visible_again or START).step  # during a reset
        )
        self._check_content(receive, one, message)
        if one.handle in self._knowledge.leases:
            self._report("handle", "a handle was used for a second delivery", one)
        if not copy.is_free:
            self._check_visible(receive, one, copy)
            self._check_lease(receive, one, copy)
            self._check_attempt(receive, one, copy)
            self._check_late(receive, one, copy)
            self._check_store_time(receive, one, copy)
        self._check_position(receive, one, copy)
        topic = self._knowledge.topics.get(receive.topic)
        if self._knowledge.group(receive.group).ordered:
            self._check_order(receive, place, copy)
        if topic is not None and topic.type == "PRIORITY":
            self._check_priority(receive, place, copy, max(topic.queues.since(START)))
        self._lease(receive, one, copy)

    def _report(self, rule: str, text: str, one: Delivered) -> None:
        self._knowledge.report(rule, text, one.at, one.content.id)

    def _check_content(self, receive: Receive, one: Delivered, message: Sent) -> None:
        sent = message.outgoing.content
        if message.is_refused:
            self._report("refused", "a message was delivered whose send was refused", one)
        origin = self._knowledge.origin(receive.topic, message)
        if one.content.topic != receive.topic or (origin is None and sent.topic != receive.topic):
            text = f"a receive from {receive.topic} was answered with a message of {one.content.topic}"
            self._report("topic", text, one)
        for name, was, came in self._knowledge.changes(message, one.content, "message_group", "priority"):
            self._report("content", f"the {name} {_short(was)} was delivered as {_short(came)}", one)
        due = message.outgoing.deliver_at
        if origin is None and due is not None and (one.due is None or abs(one.due - due) > DUE):
            self._report("content", f"the delivery time {due:.3f} was delivered as {one.due}", one)
        if not receive.filter.selects(sent):
            what = f"the tag {sent.tag} and the properties {dict(sent.properties)}"
            self._report("filter", f"{what} do not match the filter {receive.filter.text}", one)

    def _check_visible(self, receive: Receive, one: Delivered, copy: Copy) -> None:
        knowledge, message = self._knowledge, copy.message
        early = knowledge.semantics.early
        origin = knowledge.origin(receive.topic, message)
        if origin is not None:
            if copy.lease is None and knowledge.dead_letters(*origin, one.at.at)[1] == 0:
                self._report("dead letter", "a message is a dead letter that was not given up", one)
            return
        visible = knowledge.visible(message)
        if message.is_half and message.committed is None:
            what = "was rolled back" if message.is_rolled_back else "is not committed"
            self._report("transaction", f"a half message was delivered that {what}", one)
        elif one.at.at < visible.low - early:
            text = f"delivered {visible.low - one.at.at:.3f} s before its delivery time"
            self._report("delay", text, one)
        if message.recalled is not None and message.recalled.step < one.after.step:
            self._report("recall", "delivered after its recall", one)
        if copy.passed is not None and copy.passed.step < one.after.step:
            self._report("reset", "delivered although the group was reset to the end after it", one)
        is_deleted = message.trimmed is not None and message.trimmed.step < one.after.step
        if is_deleted and (copy.lease is None or copy.settled is not None):
            self._report("retention", "delivered although it was too old, and deleted", one)
        created = knowledge.group(receive.group).created
        reading = knowledge.readings[receive.group, receive.topic]
        if (
            knowledge.semantics.starts_at_creation
            and not reading.reads_whole
            and not message.is_half
            and message.outgoing.deliver_at is None
            and message.ended.step < created.step
        ):
            self._report("start", "delivered to a group that was created after the send", one)

    def _check_lease(self, receive: Receive, one: Delivered, copy: Copy) -> None:
        lease = copy.lease
        if copy.settled is not None and copy.settled_by.step <= one.after.step:
            if not self._is_behind_a_gap(receive, copy):
                what = "was forwarded to the dead letters" if copy.is_forwarded else "was acknowledged"
                self._report("settled", f"delivered again after it {what}", one)
        elif lease is not None and lease.settled is None:
            visible = self._knowledge.available(receive.group, copy)
            is_early = one.at.at < visible.low - self._knowledge.semantics.early
            if is_early and not self._is_behind_a_gap(receive, copy):
                early = f"{visible.low - one.at.at:.3f} s too early"
                until = "it is renewed" if visible.low == FOREVER else early
                self._report("lease", f"delivered again while it is leased: {until}", one)

    def _check_attempt(self, receive: Receive, one: Delivered, copy: Copy) -> None:
        group, lease = self._knowledge.group(receive.group), copy.lease
        if receive.topic.startswith("%DLQ%") and not self._knowledge.semantics.checks_leases:
            return  # counted on there (R7.6)
        if lease is None:
            allowed = {1}
        else:
            last = lease.delivery.attempt
            allowed = {last + 1} if lease.counts else {last} if lease.counts is False else {last, last + 1}
            if self._knowledge.blurs_attempts(receive.group):
                allowed = set(range(1, copy.times + 2))
        if one.attempt not in allowed and not self._counts_unseen(receive, copy):
            expected = " or ".join(map(str, sorted(allowed)))
            self._report("attempt", f"delivered as attempt {one.attempt}, not {expected}", one)
        limits = {one.attempt} if lease is None else self._knowledge.limits(receive.group, lease)
        if one.attempt > max(limits) and not group.ordered:
            self._report("attempts", f"attempt {one.attempt} of a group with at most {max(limits)}", one)

    def _counts_unseen(self, receive: Receive, copy: Copy) -> bool:
        """Return whether attempts may count deliveries that no client received."""
        knowledge, content = self._knowledge, copy.message.outgoing.content
        return knowledge.blurs_attempts(receive.group) and knowledge.is_taken_unseen(
            receive.group, receive.topic, content
        )

    def _check_late(self, receive: Receive, one: Delivered, copy: Copy) -> None:
        """Judge the time that a parked poll was not answered although the message was visible."""
        knowledge = self._knowledge
        if knowledge.group(receive.group).ordered or not knowledge.is_expected(
            receive.group, receive.topic, copy
        ):
            return
        if knowledge.is_unnoticed(receive):
            return
        since = max(knowledge.available(receive.group, copy).high, receive.begun.at)
        late = one.at.at - since - knowledge.semantics.wake - knowledge.paused(since, one.at.at)
        if since < FOREVER and late > 0:
            self._report("wake", f"a waiting poll was answered {late:.3f} s too late", one)

    def _check_store_time(self, receive: Receive, one: Delivered, copy: Copy) -> None:
        message, semantics = copy.message, self._knowledge.semantics
        early = semantics.early
        is_plain = not message.is_half and message.outgoing.deliver_at is None
        is_original = copy.lease is None or semantics.keeps_position
        is_judged = is_original and is_plain and receive.topic in self._knowledge.topics
        in_time = message.begun.at - early <= one.stored <= message.ended.at + early
        if is_judged and message.is_stored and not in_time:
            took = f"{message.begun.at:.3f} to {message.ended.at:.3f} s"
            self._report("store time", f"sent at {took}, and stored at {one.stored:.3f} s", one)

    def _check_position(self, receive: Receive, one: Delivered, copy: Copy) -> None:
        knowledge, message = self._knowledge, copy.message
        topic = knowledge.topics.get(receive.topic)
        is_copied = copy.lease is not None or copy.is_free
        if message.is_repeated or (is_copied and not knowledge.semantics.keeps_position):
            return
        if topic is None or message.outgoing.content.topic != receive.topic:
            return
        is_lite = receive.filter.is_lite
        if not 0 <= one.queue < (count := max(topic.queues.since(START))):
            self._report("queue", f"queue {one.queue} of a topic with {count}", one)
        own = f"{receive.topic}/{message.outgoing.content.message_group}" if is_lite else receive.topic
        place = (own, one.queue, one.offset)
        other = knowledge.positions.setdefault(place, one.content.id)
        if other != one.content.id:
            self._report("offset", f"queue {one.queue} has two messages at offset {one.offset}", one)
        if is_lite:
            return
        message.positions.add((one.queue, one.offset))
        if len(message.positions) > 1:
            self._report("offset", "delivered from two queues or offsets", one)
        if message.offset not in (-1, one.offset):
            text = f"delivered from offset {one.offset}; its receipt has {message.offset}"
            self._report("offset", text, one)
        if message.outgoing.content.message_group and topic.type == "FIFO":
            queues = {queue for beside in self._beside(message) for queue, _ in beside.positions}
            if len(queues | {one.queue}) > 1:
                self._report("order", "a message group is spread over several queues", one)

    def _check_order(self, receive: Receive, place: int, copy: Copy) -> None:
        """Judge a delivery of an ordered group: whatever was sent before it is settled, or in front of it."""
        knowledge, message = self._knowledge, copy.message
        one = receive.deliveries[place]
        if not message.outgoing.content.message_group or copy.is_free:
            return
        before = {each.content.id for each in receive.deliveries[:place]}
        for other in self._beside(message):
            its = knowledge.copy(receive.group, receive.topic, other)
            if not other.is_before(message) or other.id in before or not other.is_stored:
                continue
            if its.is_settled_at(one.at.step) or not knowledge.is_expected(receive.group, receive.topic, its):
                continue
            if knowledge.dead_letters(receive.group, its, one.at.at)[1]:
                continue
            text = "delivered while an earlier message of its message group is not settled"
            self._report("order", text, one)
            return
        for later in receive.deliveries[:place]:
            sent = knowledge.messages.get(later.content.id)
            same = (
                sent is not None
                and sent.outgoing.content.message_group == message.outgoing.content.message_group
            )
            if same and sent is not None and message.is_before(sent):
                self._report("order", "delivered behind a later message of its message group", one)
                return

    def _check_priority(self, receive: Receive, place: int, copy: Copy, queues: int) -> None:
        """Judge a batch of fresh messages with priorities: there are as many levels as queues."""
        one = receive.deliveries[place]
        for before in receive.deliveries[:place]:
            sent = self._knowledge.messages.get(before.content.id)
            is_fresh = (
                sent is not None and self._knowledge.copy(receive.group, receive.topic, sent).times == 1
            )
            if copy.times > 0 or copy.is_free or not is_fresh or before.after != one.after:
                continue
            levels = [min(each.content.priority or 0, queues - 1) for each in (before, one)]
            if levels[0] < levels[1]:
                self._report("priority", "delivered behind a message with a lower priority", one)
                return

    def _beside(self, message: Sent) -> Iterator[Sent]:
        content = message.outgoing.content
        for other in self._knowledge.of_topic(content.topic):
            if other is not message and other.outgoing.content.message_group == content.message_group:
                yield other

    def _is_behind_a_gap(self, receive: Receive, copy: Copy) -> bool:
        """E5: a server that locks whole queues redelivers what lies behind a message that was not acknowledged; tell
        whether there may have been one since the delivery of `copy`, or when it was settled."""
        knowledge = self._knowledge
        if not (knowledge.semantics.order_by_queue and knowledge.group(receive.group).ordered):
            return False
        place = None if copy.lease is None else copy.lease.delivery
        for (group, topic, _), other in knowledge.copies.items():
            if (group, topic) != (receive.group, receive.topic) or copy.message.is_before(other.message):
                continue
            before = None if other.lease is None else other.lease.delivery
            if place is not None and before is not None:
                if place.queue != before.queue or place.offset <= before.offset:
                    continue
                if before.at.step > place.at.step:
                    return True
            if other.settled is None or other.is_free:
                return True
            settled = copy.settled
            if settled is not None and settled != other.settled and other.settled_by.step > settled.step:
                return True
        return knowledge.is_unclear(receive.group, receive.topic)

    def _lease(self, receive: Receive, one: Delivered, copy: Copy) -> None:
        length = receive.invisible
        end = Interval(one.after.at + length, one.at.at + length)
        renewed = receive.auto_renew and self._knowledge.semantics.renews
        if receive.auto_renew:
            end = Interval(FOREVER, FOREVER) if renewed else end
        lease = Lease(one, receive, end, {one.handle: True}, renewed)
        copy.lease, copy.settled = lease, None
        copy.times += 1
        self._knowledge.leases[one.handle] = (receive.group, receive.topic, copy, lease)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
