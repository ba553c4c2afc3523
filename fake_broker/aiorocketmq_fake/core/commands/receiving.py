"""Receiving: which messages a consumer gets, under which lease, and when its call is parked (5)."""

from __future__ import annotations

from aiorocketmq_fake.core.commands.dead_letters import DeadLetters
from aiorocketmq_fake.core.commands.leasing import Leasing
from aiorocketmq_fake.core.commands.lite_reading import LiteReading
from aiorocketmq_fake.core.commands.polls import Poll, PollBook
from aiorocketmq_fake.core.commands.registry import receiver_group
from aiorocketmq_fake.core.filters.expressions import Filter, parse
from aiorocketmq_fake.core.records.consumption import Consumption
from aiorocketmq_fake.core.records.leases import Lease, Order
from aiorocketmq_fake.core.records.topics import Queue
from aiorocketmq_fake.core.state import State, milliseconds
from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.codes import Code, Refusal
from aiorocketmq_fake.core.values.events import Delivered, Filtered, LeaseEnd, OffsetCommitted
from aiorocketmq_fake.core.values.handles import encode
from aiorocketmq_fake.core.values.model import (
    Delivery,
    Parked,
    PollAnswered,
    Received,
    ReceiveRequest,
    StoredMessage,
)

_OK = Code.OK
"""Alias: attribute access on the enum is ten times slower, for every receive."""

ReceivePoll = Poll[ReceiveRequest]


Taken = list[tuple[StoredMessage, int, int, Order | None]]
"""Messages, each with the offset from which its queue was read, the number of its earlier deliveries, and its order."""


class Receiving:
    """The receive command, and the polls it parks."""

    def __init__(
        self,
        state: State,
        polls: PollBook[ReceiveRequest],
        dead_letters: DeadLetters,
        leasing: Leasing,
        lite: LiteReading,
    ) -> None:
        self._state = state
        self._polls = polls
        self._dead_letters = dead_letters
        self._leasing = leasing
        self._lite = lite
        polls.serve(self._try, self.expire)

    def receive(self, request: ReceiveRequest) -> Received | Parked:
        """Answer at once if there are messages, else park (R5.15, R5.17)."""
        state = self._state
        profile = state.profile
        apart = self._lite.serves(request)
        wait, filter_ = self._check(request, apart)
        poll = Poll(
            state.next_serial(),
            request.topic,
            request.group,
            request.client_id,
            request,
            filter_,
            state.now,
            state.now + wait,
        )
        poll.apart = apart
        if apart:
            poll.filter = self._lite.filter(request)
        consumption = self._consumption(request, apart)
        deliveries, dropped = self._deliver(poll, consumption)
        if deliveries or (dropped and profile.dropped_ends_poll):
            return self._finish(poll, deliveries, dropped)
        if wait <= milliseconds(profile.polling_margin):
            return self._finish(poll, deliveries, dropped)
        poll.until -= milliseconds(profile.polling_margin)
        return self._polls.park(poll)

    def cancel(self, poll: ReceivePoll) -> None:
        """Cancel a parked receive: its caller disconnected (R5.7)."""
        poll.cancelled = True
        if not self._state.profile.cancelled_polls_take:
            self._end(poll, ())

    def dismiss_client(self, client_id: str) -> None:
        """Answer the parked receives of a client empty, now."""
        for poll in self._polls.of_client(client_id):
            self._end(poll, ())

    def dismiss_topic(self, topic: str) -> None:
        """Answer the parked receives of a topic empty, now."""
        for poll in self._polls.of_topic(topic):
            self._end(poll, ())

    def dismiss_group(self, group: str) -> None:
        """Answer the parked receives of a group empty, now."""
        for poll in self._polls.of_key(group):
            self._end(poll, ())

    # Checks

    def _check(self, request: ReceiveRequest, apart: bool) -> tuple[int, Filter | None]:
        """Check a request in the server's order (5.1); return how long it may wait, in ms, and its filter."""
        state = self._state
        profile = state.profile
        client = state.clients.get(request.client_id)
        if client is None:
            raise Refusal(
                profile.no_settings_code,
                f"The client {request.client_id} has sent no settings; open a telemetry stream and send them first.",
            )
        wait = self._wait(request, client.settings.request_timeout or limits.REQUEST_TIMEOUT)
        state.check_topic(request.topic)
        state.check_group(request.group)
        if not request.auto_renew:
            self._check_invisible(request.invisible)
        if profile.auto_create_groups and request.topic in state.topics:
            receiver_group(state, request.group)  # before the filter is read, as seen on 5.5.0
        filter_ = parse(request.filter, profile)
        topic = state.topics.get(request.topic)
        if topic is None:
            raise Refusal(profile.unknown_topic_receive_code, f"The topic {request.topic} does not exist.")
        if not topic.config.permission.readable or not topic.config.read_queues:
            raise Refusal(Code.FORBIDDEN, f"The topic {request.topic} has no readable queue.")
        group = state.groups.get(request.group)
        if group is None and not profile.auto_create_groups:
            raise Refusal(profile.unknown_group_code, f"The consumer group {request.group} does not exist.")
        if group is not None and not group.config.consume_enabled:
            raise Refusal(profile.disabled_group_code, f"The consumer group {request.group} may not consume.")
        if request.batch_size < 0:
            raise Refusal(profile.bad_batch_size_code, f"The batch size {request.batch_size} is negative.")
        # Before messages are taken, so that a refusal changes nothing: with so many parked polls there are none.
        self._polls.check_room(request.topic, request.group)
        if apart:
            self._lite.check(request)
        return wait, filter_

    def _wait(self, request: ReceiveRequest, request_timeout: float) -> int:
        profile = self._state.profile
        deadline = request.remaining_deadline
        if deadline is None and profile.deadline_required:
            raise Refusal(
                Code.INTERNAL_SERVER_ERROR, "The call has no deadline; set one longer than the polling time."
            )
        polling = request.polling
        if polling is None:
            polling = 0.0 if deadline is None else deadline - request_timeout / 2
        polling = min(max(polling, profile.polling_min), profile.polling_max)
        if deadline is not None and polling > deadline:
            if deadline < profile.polling_cut_floor:
                old = request.client_version and request.client_version < profile.polling_code_since
                raise Refusal(
                    Code.BAD_REQUEST if old else Code.ILLEGAL_POLLING_TIME,
                    f"The call's deadline in {deadline:.3f} s is before the end of its polling time of {polling:g} s.",
                )
            polling = deadline
        return milliseconds(polling)

    def _check_invisible(self, invisible: float | None) -> None:
        profile = self._state.profile
        if invisible is None or not profile.invisible_min <= invisible <= profile.invisible_max:
            raise Refusal(
                Code.ILLEGAL_INVISIBLE_TIME,
                f"The invisible duration {invisible} is not {profile.invisible_min:g} to {profile.invisible_max:g} s.",
            )

    def _consumption(self, request: ReceiveRequest, apart: bool) -> Consumption:
        state = self._state
        if apart:
            return self._lite.consumption(request)
        key = (request.group, request.topic)
        consumption = state.consumptions.get(key)
        if consumption is None:
            group = receiver_group(state, request.group)
            topic = state.topics[request.topic]
            consumption = state.consumptions[key] = Consumption(state.profile, group, topic)
        return consumption

    # Delivering

    def _deliver(self, poll: ReceivePoll, consumption: Consumption) -> tuple[list[Delivery], bool]:
        """Lease the messages that the poll can get now; the second value is whether messages were dropped instead
        (5.2)."""
        ordered, max_attempts = self.rules(poll.request, consumption)
        limit = min(poll.request.batch_size, self._state.profile.receive_batch_max)
        deliveries: list[Delivery] = []
        dropped = False
        take = self._take_ordered if ordered or poll.apart else self.take
        while not deliveries and limit > 0:
            taken = take(poll, consumption, limit)
            if not taken:
                break
            for message, start, before, order in taken:
                if poll.filter is not None and not poll.filter.confirms(message):
                    self._skip(consumption, message)
                elif before >= max_attempts:
                    self._dead_letters.give_up(consumption.group.name, message, before)
                else:
                    deliveries.append(
                        self._lease(poll, consumption, message, start, before, order, len(deliveries))
                    )
                    continue
                dropped = True
                if order is not None:
                    self._settle(consumption, order, message)
            if self._state.profile.dropped_ends_poll:
                break
        return deliveries, dropped

    def rules(self, request: ReceiveRequest, consumption: Consumption) -> tuple[bool, int]:
        """Return whether the receive is ordered, and after how many deliveries a message is given up (R5.1)."""
        config = consumption.group.config
        client = self._state.clients.get(request.client_id)
        if self._state.profile.client_settings_decide and client is not None:
            subscription = client.settings.subscription
            if subscription is None:
                return False, limits.PRODUCER_MAX_ATTEMPTS
            if subscription.group != request.group:
                group = self._state.groups.get(subscription.group)
                if group is not None:
                    config = group.config
        return config.ordered, config.max_attempts

    def take(self, poll: ReceivePoll, consumption: Consumption, limit: int) -> Taken:
        """Take messages for a normal group (5.3)."""
        state = self._state
        state.revive_queue = (state.revive_queue + 1) % limits.REVIVE_QUEUES
        messages = consumption.take(
            limit,
            poll.filter,
            state.rng,
            state.profile.retry_first_chance,
            lambda message: self._skip(consumption, message),
        )
        return [(message, start, message.attempts_before, None) for message, start in messages]

    def _take_ordered(self, poll: ReceivePoll, consumption: Consumption, limit: int) -> Taken:
        taken: Taken = []
        attempt_id = poll.request.attempt_id
        queues = self._lite.queues(poll.request) if poll.apart else consumption.reading_order(self._state.rng)
        for queue in queues:
            if len(taken) >= limit:
                break
            order = self._order(consumption, queue)
            for lease in order.release(attempt_id):
                self._leasing.drop(lease, LeaseEnd.REPEATED)
            committed = order.committed
            batch = order.take(
                limit - len(taken),
                poll.filter,
                attempt_id,
                lambda message: self._skip(consumption, message),
            )
            if batch:
                order.popped = max(self._state.now, order.popped + 1)
                start = batch[0][0].offset
                taken.extend((each, start, each.attempts_before + count, order) for each, count in batch)
            self._note_progress(consumption, queue.id, committed, order.committed)
        return taken

    def _order(self, consumption: Consumption, queue: Queue) -> Order:
        """Return the order record of a queue, a new one after a long rest (8.3)."""
        order = consumption.order(queue)
        life = milliseconds(self._state.profile.order_record_life)
        if not life or not order.popped or self._state.now - order.popped <= life:
            return order
        consumption.forget_order(queue)
        return consumption.order(queue)

    def _lease(
        self,
        poll: ReceivePoll,
        consumption: Consumption,
        message: StoredMessage,
        start: int,
        before: int,
        order: Order | None,
        place: int,
    ) -> Delivery:
        state = self._state
        request = poll.request
        now = state.now
        renewed = request.auto_renew
        length = milliseconds(state.profile.auto_renew_lease if renewed else request.invisible or 0.0)
        expires = now + length
        popped, revive_queue = now, state.revive_queue
        if order is not None:
            popped, revive_queue = order.popped, limits.ORDERED_REVIVE_QUEUE
        while True:
            handle = encode(
                start,
                popped,
                expires - popped,
                revive_queue,
                message.topic != request.topic,
                state.broker,
                message.queue_id,
                message.offset,
                message.position,
            )
            # After a reset, one message may be delivered twice within a millisecond.
            if not state.leases.knows(handle):
                break
            popped += 1
        lease = Lease(
            consumption,
            message,
            before + 1,
            request.client_id,
            handle,
            popped,
            expires,
            revive_queue,
            renewed and state.profile.auto_renews,
            order,
        )
        state.leases.add(lease)
        self._leasing.schedule(lease)
        if order is not None:
            order.opened(lease)
        shown = message.first_copy or message
        delivery = Delivery(
            message,
            handle,
            before + 1,
            shown.queue_id,
            shown.offset,
            shown.store_timestamp,
            expires / 1000,
        )
        event = Delivered(
            now / 1000,
            consumption.group.name,
            request.client_id,
            delivery,
            length / 1000,
            renewed,
            poll.id,
            place,
            request.attempt_id,
            request.filter,
        )
        state.events.append(event)
        state.history.append(event)
        return delivery

    def _skip(self, consumption: Consumption, message: StoredMessage) -> None:
        self._state.events.append(Filtered(self._state.at, consumption.group.name, message))

    def _settle(self, consumption: Consumption, order: Order, message: StoredMessage) -> None:
        committed = order.committed
        order.settle(message)
        self._note_progress(consumption, message.queue_id, committed, order.committed)

    def _note_progress(self, consumption: Consumption, queue_id: int, before: int, after: int) -> None:
        if after != before and not consumption.topic.system:
            self._state.events.append(
                OffsetCommitted(
                    self._state.at, consumption.group.name, consumption.topic.name, queue_id, after
                )
            )

    # Parked polls

    def _try(self, poll: ReceivePoll) -> bool:
        """Answer a parked poll if it can get messages."""
        key = (poll.request.group, poll.topic)
        if poll.apart:
            consumption = self._lite.consumption(poll.request)
        elif (existing := self._state.consumptions.get(key)) is not None:
            consumption = existing
        else:
            return False
        deliveries, dropped = self._deliver(poll, consumption)
        if not deliveries and not (dropped and self._state.profile.dropped_ends_poll):
            return False
        self._end(poll, tuple(deliveries), dropped)
        return True

    def expire(self, poll: ReceivePoll) -> None:
        """Try a poll a last time, then answer it empty (R5.19)."""
        if not self._try(poll):
            self._end(poll, ())

    def _end(self, poll: ReceivePoll, deliveries: tuple[Delivery, ...], dropped: bool = False) -> None:
        self._polls.remove(poll)
        result = self._finish(poll, list(deliveries), dropped)
        if not poll.cancelled:
            self._state.outputs.append(PollAnswered(poll.id, result))

    def _finish(self, poll: ReceivePoll, deliveries: list[Delivery], dropped: bool) -> Received:
        """Return the answer; deliveries that cannot reach their caller are released (5.2, R5.7)."""
        state = self._state
        lost = poll.cancelled or (poll.request.auto_renew and poll.client_id not in state.clients)
        if deliveries and not lost:
            result = Received(_OK, "", tuple(deliveries))
        elif dropped:
            result = Received(Code.MESSAGE_NOT_FOUND, "no match message")
        else:
            result = Received(state.profile.empty_receive_code, "no new message")
        self._polls.report_end(poll, result.code, len(result.deliveries))
        if deliveries and lost:
            self._leasing.release_deliveries(tuple(delivery.receipt_handle for delivery in deliveries))
        return result
