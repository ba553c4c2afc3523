"""Pulling: reading one queue from an offset, without lease and without effect on the group (10.1)."""

from aiorocketmq_fake.core.commands.polls import Poll, PollBook
from aiorocketmq_fake.core.filters.expressions import parse
from aiorocketmq_fake.core.records.topics import Queue, Topic
from aiorocketmq_fake.core.state import State, milliseconds
from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.codes import Code, Refusal
from aiorocketmq_fake.core.values.model import Parked, PollAnswered, Pulled, PullRequest, StoredMessage

PullPoll = Poll[PullRequest]

_SCAN_MAX = 800
"""Entries that one read examines (R5.11)."""


class Pulling:
    """The pull command, and the polls it parks."""

    def __init__(self, state: State, polls: PollBook[PullRequest]) -> None:
        self._state = state
        self._polls = polls
        polls.serve(self._try, self.expire)

    def pull(self, request: PullRequest) -> Pulled | Parked:
        """Read from an offset; at the end of the queue, wait."""
        state = self._state
        queue = find_queue(state, request.topic, request.queue_id)
        state.check_group(request.group)
        if request.batch_size < 0:
            raise Refusal(
                state.profile.bad_batch_size_code, f"The batch size {request.batch_size} is negative."
            )
        wait = request.polling or 0.0
        if request.remaining_deadline is not None:
            wait = min(wait, request.remaining_deadline)
        poll = Poll(
            state.next_serial(),
            request.topic,
            request.queue_id,
            request.client_id,
            request,
            parse(request.filter, state.profile),
            state.now,
            state.now + milliseconds(min(wait, state.profile.polling_max)),
        )
        result = self._read(poll, queue)
        if result is not None or poll.until <= state.now:
            return self._tell(poll, result or self._nothing(request))
        self._polls.check_room(request.topic, request.queue_id)
        return self._polls.park(poll)

    def cancel(self, poll: PullPoll) -> None:
        """Cancel a parked pull: its caller disconnected."""
        poll.cancelled = True
        self._polls.remove(poll)
        self._tell(poll, self._nothing(poll.request))

    def dismiss_client(self, client_id: str) -> None:
        """Answer the parked pulls of a client empty, now."""
        for poll in self._polls.of_client(client_id):
            self.expire(poll)

    def dismiss_topic(self, topic: str) -> None:
        """Answer the parked pulls of a topic empty, now."""
        for poll in self._polls.of_topic(topic):
            self.expire(poll)

    def stored(self, topic: Topic, message: StoredMessage) -> None:
        """Try all polls at the end of a queue that got a message: pulls take nothing from one another."""
        for poll in self._polls.of_topic(topic.name):
            if poll.key == message.queue_id:
                self._try(poll)

    def _read(self, poll: PullPoll, queue: Queue) -> Pulled | None:
        """Read a queue; None when the offset is its end and there is time to wait."""
        request = poll.request
        offset = request.offset
        if offset < queue.min_offset or offset > queue.max_offset:
            nearest = queue.min_offset if offset < queue.min_offset else queue.max_offset
            return Pulled(
                Code.ILLEGAL_OFFSET,
                f"The offset {offset} is not {queue.min_offset} to {queue.max_offset}.",
                (),
                nearest,
            )
        messages: list[StoredMessage] = []
        room = limits.CLASSIC_ANSWER_MAX if request.classic else None
        limit = min(request.batch_size, self._state.profile.receive_batch_max)
        end = offset + _SCAN_MAX
        while offset < end and len(messages) < limit and (message := queue.get(offset)) is not None:
            if poll.filter is None or (
                poll.filter.selects(message) and (request.classic or poll.filter.confirms(message))
            ):
                if room is not None and messages and len(message.content.body) > room:
                    break
                room = None if room is None else room - len(message.content.body)
                messages.append(message)
            offset += 1
        if messages:
            return Pulled(Code.OK, "", tuple(messages), offset)
        if offset > request.offset:
            return Pulled(Code.MESSAGE_NOT_FOUND, "no match message", (), offset)
        return None

    def _nothing(self, request: PullRequest) -> Pulled:
        return Pulled(Code.MESSAGE_NOT_FOUND, "no new message", (), request.offset)

    def _try(self, poll: PullPoll) -> bool:
        topic = self._state.topics.get(poll.topic)
        if topic is None:
            return False
        result = self._read(poll, topic.queues[poll.request.queue_id])
        if result is None:
            return False
        self._answer(poll, result)
        return True

    def expire(self, poll: PullPoll) -> None:
        """Answer a parked pull empty: it timed out, or no message can come any more."""
        self._answer(poll, self._nothing(poll.request))

    def _answer(self, poll: PullPoll, result: Pulled) -> None:
        self._polls.remove(poll)
        self._state.outputs.append(PollAnswered(poll.id, self._tell(poll, result)))

    def _tell(self, poll: PullPoll, result: Pulled) -> Pulled:
        self._polls.report_end(poll, result.code, len(result.messages))
        return result


def find_queue(state: State, topic_name: str, queue_id: int) -> Queue:
    """Return a queue. Refused: ILLEGAL_TOPIC, TOPIC_NOT_FOUND, and NOT_FOUND for an unknown queue."""
    state.check_topic(topic_name)
    topic = state.topics.get(topic_name)
    if topic is None:
        raise Refusal(Code.TOPIC_NOT_FOUND, f"The topic {topic_name} does not exist.")
    if not topic.config.permission.readable:
        raise Refusal(Code.FORBIDDEN, f"The topic {topic_name} has no readable queue.")
    if not 0 <= queue_id < topic.config.read_queues:
        raise Refusal(Code.BAD_REQUEST, f"The topic {topic_name} has no queue {queue_id}.")
    return topic.queues[queue_id]
