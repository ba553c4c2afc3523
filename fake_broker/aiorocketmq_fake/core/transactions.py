"""Transactions: half messages that wait for commit or rollback (9.1, 9.2)."""

from aiorocketmq_fake.core.codes import Code, MessageType, Refusal, Resolution
from aiorocketmq_fake.core.events import Prepared, StoredAs, TransactionEnded
from aiorocketmq_fake.core.model import EndTransactionRequest, OutgoingMessage
from aiorocketmq_fake.core.state import State, milliseconds
from aiorocketmq_fake.core.storage import Storage
from aiorocketmq_fake.core.topics import Topic


class Half:
    """A half message, and until when its producer's decision is accepted."""

    __slots__ = ("content", "known_until", "queue_id", "topic")

    def __init__(self, topic: Topic, queue_id: int, content: OutgoingMessage, known_until: int) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.content = content
        self.known_until = known_until


class Transactions:
    """Half messages by topic and transaction id; the newest of equal ids is ended first (R9.1)."""

    def __init__(self, state: State, storage: Storage) -> None:
        self._state = state
        self._storage = storage
        self._halves: dict[tuple[str, str], list[Half]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._halves.values()))

    def prepare(self, topic: Topic, queue_id: int, content: OutgoingMessage, client_id: str) -> str:
        """Keep a half message; answers the transaction id, which is the message's (9.1)."""
        state = self._state
        known_until = state.now + milliseconds(state.profile.transaction_memory)
        half = Half(topic, queue_id, content, known_until)
        self._halves.setdefault((topic.name, content.message_id), []).append(half)
        state.events.append(Prepared(state.at, content, client_id, None))
        return content.message_id

    def end(self, request: EndTransactionRequest) -> None:
        """Commit, roll back, or only use up the producer's chance to do so (9.2)."""
        state = self._state
        state.check_topic(request.topic)
        if not request.transaction_id.strip():
            raise Refusal(Code.INVALID_TRANSACTION_ID, "The transaction id is blank.")
        key = (request.topic, request.transaction_id)
        half = next(
            (half for half in reversed(self._halves.get(key, [])) if half.known_until >= state.now), None
        )
        if half is None:
            raise Refusal(
                state.profile.unknown_transaction_code,
                f"The transaction {request.transaction_id[:80]!r} on topic {request.topic} is not known (any more).",
            )
        half.known_until = -1
        state.events.append(
            TransactionEnded(
                state.at,
                request.topic,
                request.transaction_id,
                request.client_id,
                request.resolution,
                request.from_check,
            )
        )
        if request.resolution is Resolution.UNSPECIFIED:
            return
        self._halves[key].remove(half)
        if not self._halves[key]:
            del self._halves[key]
        if request.resolution is Resolution.COMMIT:
            stored = self._storage.append(
                half.topic,
                half.queue_id,
                half.content,
                MessageType.TRANSACTION,
                StoredAs.COMMITTED,
                client_id=request.client_id,
                transaction_id=request.transaction_id,
            )
            self._storage.announce(half.topic, stored)

    def forget_decisions(self) -> None:
        """Forget which decisions are awaited: the proxy lost its memory (R12.7)."""
        for halves in self._halves.values():
            for half in halves:
                half.known_until = -1

    def forget_topic(self, topic_name: str) -> None:
        """Drop the half messages of a topic that is deleted."""
        for key in [key for key in self._halves if key[0] == topic_name]:
            del self._halves[key]
