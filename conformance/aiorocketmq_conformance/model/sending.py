"""Sends, transactions and recalls: which may be accepted, and what they store."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from aiorocketmq_conformance.model.calls import (
    OK,
    UNKNOWN,
    Check,
    EndTransaction,
    Occurrence,
    Outgoing,
    Recall,
    Send,
    differences,
)
from aiorocketmq_conformance.model.knowledge import Act, Knowledge
from aiorocketmq_conformance.model.semantics import AGE_OF_CHECKED
from aiorocketmq_conformance.model.state import Sent

SERVER_FAULTS = frozenset({UNKNOWN, "INTERNAL_SERVER_ERROR", "INTERNAL_ERROR", "HA_NOT_AVAILABLE"})
"""Codes that leave open whether a call took effect."""


class Sending:
    """Producers' calls."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge

    def acts(self, event: Occurrence) -> Iterator[Act]:
        """Yield what is judged at which steps of an event."""
        match event:
            case Send():
                yield event.begun.step, partial(self.begin_send, event)
                yield event.ended.step, partial(self.end_send, event)
            case EndTransaction():
                yield event.begun.step, partial(self.begin_end, event)
                yield event.ended.step, partial(self.end_end, event)
            case Check():
                yield event.ended.step, partial(self.checked, event)
            case Recall():
                yield event.ended.step, partial(self.recalled, event)

    def begin_send(self, send: Send) -> None:
        """Take note of messages that may be delivered from now on."""
        for place, outgoing in enumerate(send.messages):
            sent = Sent(outgoing, send.begun, place=place)
            known = self._knowledge.messages.setdefault(outgoing.content.id, sent)
            known.is_repeated = known is not sent

    def end_send(self, send: Send) -> None:
        """Judge the response to a send."""
        knowledge = self._knowledge
        legal = [self._is_legal(outgoing) for outgoing in send.messages]
        sent = [knowledge.messages[outgoing.content.id] for outgoing in send.messages]
        if send.code == OK and not all(legal):
            wrong = sent[legal.index(False)]
            knowledge.report("send", "an illegal message was accepted", send.ended, wrong.id)
        if send.code not in {OK, *SERVER_FAULTS} and all(legal):
            knowledge.report("send", f"legal messages were answered with {send.code}", send.ended, sent[0].id)
        for message in sent:
            if message.is_repeated:
                message.is_uncertain, message.is_refused = True, False
                continue
            message.ended = send.ended
            message.is_stored = send.code == OK
            message.is_refused = send.code not in {OK, UNKNOWN} and (
                send.code not in SERVER_FAULTS or not all(legal)
            )
            message.is_uncertain = not (message.is_stored or message.is_refused)
            message.visible = send.ended if send.code == OK and not message.is_half else None
        if send.code == OK and len(send.receipts) == len(sent):
            for message, receipt in zip(sent, send.receipts, strict=True):
                if receipt.code != OK:
                    text = f"an entry of an accepted send has the code {receipt.code}"
                    knowledge.report("send", text, send.ended, message.id)
                # Of a lite message it is that in the parent topic.
                is_lite = message.outgoing.type == "LITE"
                plain = message.outgoing.deliver_at is None and not message.is_half and not is_lite
                message.offset = receipt.offset if plain else -1
                if message.is_half and not receipt.transaction:
                    knowledge.report(
                        "transaction", "the receipt has no transaction id", send.ended, message.id
                    )

    def _is_legal(self, outgoing: Outgoing) -> bool:
        topic = self._knowledge.topics.get(outgoing.content.topic)
        return outgoing.is_legal and topic is not None and topic.type == outgoing.type

    def begin_end(self, end: EndTransaction) -> None:
        """Let a half message be delivered from the begin of its commit on."""
        message = self._knowledge.messages[end.message]
        message.deciding += 1
        is_possible = end.code in {OK, *SERVER_FAULTS} and not message.is_rolled_back
        if end.decision == "commit" and is_possible:
            if message.committed is None:
                message.committed = end.begun
            elif not self._knowledge.semantics.checks_leases:
                # After a check such a server takes a commit again, and stores the message again.
                message.is_repeated = True

    def end_end(self, end: EndTransaction) -> None:
        """Judge the response to the end of a transaction."""
        message = self._knowledge.messages[end.message]
        is_alone = message.deciding == 1
        message.deciding -= 1
        is_decided = message.visible is not None or message.is_rolled_back
        report = self._knowledge.report
        if end.code in SERVER_FAULTS:
            message.is_uncertain = message.is_uncertain or not is_decided
        elif end.decision == "unspecified":
            # Some servers take it as a rollback, all may refuse it.
            message.is_forgotten = message.is_forgotten or end.code == OK
            is_open = end.code == OK and not is_decided and not self._knowledge.semantics.checks_leases
            message.is_uncertain = message.is_uncertain or is_open
        elif is_decided:
            if end.code == OK and self._knowledge.semantics.checks_leases and not message.is_repeated:
                report("transaction", "a second decision was accepted", end.ended, message.id)
        elif end.code != OK:
            # A proxy remembers transactions for a while only, and not over a restart.
            restarted = self._knowledge.restarted
            remembered = message.ended.at + self._knowledge.semantics.transaction_memory
            is_late = end.ended.at > remembered or message.is_forgotten
            if is_late or not is_alone or (restarted is not None and restarted.step > message.ended.step):
                return
            text = f"the first decision was answered with {end.code}"
            report("transaction", text, end.ended, message.id)
        elif end.decision == "commit":
            message.visible = end.ended
        else:
            message.is_rolled_back = True

    def checked(self, check: Check) -> None:
        """Judge a transaction check of the server."""
        message = self._knowledge.messages.get(check.content.id)
        if message is None or not message.is_half:
            self._knowledge.report("check", "a message was checked that is not half", check.ended)
            return
        message.times_checked += 1
        patience = self._knowledge.semantics.immunity
        if message.outgoing.recovery is not None:
            patience = message.outgoing.recovery - AGE_OF_CHECKED
        age = check.ended.at - message.begun.at
        if message.times_checked == 1 and age < patience:
            self._knowledge.report("check", f"checked {age:.3f} s after the send", check.ended, message.id)
        for name, was, came in differences(message.outgoing.content, check.content):
            text = f"the {name} {was!r} was checked as {came!r}"
            self._knowledge.report("check", text, check.ended, message.id)

    def recalled(self, recall: Recall) -> None:
        """Judge the response to a recall."""
        message = self._knowledge.messages[recall.message]
        due = message.outgoing.deliver_at
        near = self._knowledge.semantics.recall_margin + self._knowledge.semantics.early
        late = due is not None and recall.begun.at > due
        soon = due is not None and recall.ended.at > due - near
        if recall.code == OK:
            if late:
                text = "a recall was accepted after the delivery time"
                self._knowledge.report("recall", text, recall.ended, message.id)
            message.recalled = recall.ended
        elif recall.code in SERVER_FAULTS:
            message.is_uncertain = message.is_uncertain or not late
        elif not soon and message.recalled is None:
            text = f"a recall in time was answered with {recall.code}"
            self._knowledge.report("recall", text, recall.ended, message.id)
