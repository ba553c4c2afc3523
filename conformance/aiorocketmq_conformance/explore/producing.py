"""The producers of a history: sends, transactions, checks and recalls."""

from __future__ import annotations

import asyncio
import gzip
import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace

from aiorocketmq.wire import messages as pb

from aiorocketmq_conformance.explore.expressions import PRICE, REGION, REGIONS, WEIGHT
from aiorocketmq_conformance.explore.plan import Step, TopicPlan
from aiorocketmq_conformance.explore.scribe import Scribe
from aiorocketmq_conformance.model.calls import (
    Check,
    Content,
    EndTransaction,
    Outgoing,
    Recall,
    Receipt,
    Send,
)
from aiorocketmq_conformance.model.semantics import Semantics
from aiorocketmq_conformance.probe import requests
from aiorocketmq_conformance.probe.answers import DIGESTS, code_of
from aiorocketmq_conformance.probe.checker import end_transaction
from aiorocketmq_conformance.probe.client import ProbeClient
from aiorocketmq_conformance.probe.telemetry import StreamEnded, Telemetry

MARK = "x"
"""First character of the names of properties: servers add some of their own."""
AGE = 1.5
"""Seconds between the birth of a message and its send."""
DAY = 86_400.0
RESOLUTIONS = {
    "commit": pb.TransactionResolution.COMMIT,
    "rollback": pb.TransactionResolution.ROLLBACK,
    "unspecified": pb.TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED,
}


def receipts_of(response: pb.SendMessageResponse) -> tuple[Receipt, ...]:
    """Return the entries of a response with OK to a send."""
    code = code_of(response)
    if code != "OK":
        return ()
    return tuple(
        Receipt(code_of(entry) if entry.HasField("status") else code, entry.offset, entry.transaction_id)
        for entry in response.entries
    )


def content_of(message: pb.Message) -> Content:
    """Return the content of a message as a server sent it."""
    system = message.system_properties
    properties = sorted(message.user_properties.items())
    born = system.born_timestamp
    return Content(
        id=system.message_id,
        topic=message.topic.name,
        body=_body(message),
        encoding=pb.Encoding.Name(system.body_encoding),
        tag=system.tag if system.HasField("tag") else None,
        keys=tuple(system.keys),
        properties=tuple((name, value) for name, value in properties if name.startswith(MARK)),
        message_group=system.message_group or system.lite_topic,
        priority=system.priority if system.HasField("priority") else None,
        born_ms=born.seconds * 1000 + born.nanos // 1_000_000,
    )


def _body(message: pb.Message) -> str:
    """Return the text of a body, and what is wrong with it."""
    body, system = message.body, message.system_properties
    digest = system.body_digest
    intact = digest.type not in DIGESTS or DIGESTS[digest.type](body).upper() == digest.checksum.upper()
    if system.body_encoding == pb.Encoding.GZIP:
        try:
            body = gzip.decompress(body)
        except (OSError, EOFError):
            return f"{body!r} is not compressed"
    return body.decode(errors="replace") + ("" if intact else " with another digest")


@dataclass(slots=True)
class _Transaction:
    message: str
    topic: str
    id: str
    is_decided: bool = False


class Producing:
    """Two producers, and what they sent."""

    def __init__(
        self,
        scribe: Scribe,
        semantics: Semantics,
        topics: list[tuple[str, TopicPlan]],
        clients: list[ProbeClient],
        run_id: str,
    ) -> None:
        """`topics` are names and plans."""
        self.horizon = 0.0
        """When the last delayed message is due, at the latest."""
        self.clients = clients
        self._scribe = scribe
        self._semantics = semantics
        self._topics = topics
        self._prefix = f"01{int(run_id, 16):016X}"
        self._numbers = itertools.count(1)
        self._transactions: list[_Transaction] = []
        self._recalls: list[tuple[str, str, str]] = []
        self._listeners: list[asyncio.Task[None]] = []

    def settings(self) -> pb.Settings:
        """Return the settings of the producers."""
        return requests.producer_settings(*(name for name, _ in self._topics))

    def listen(self) -> None:
        """Receive the server's checks on the newest streams, instead of the older ones."""
        self.stop()
        self._listeners = [
            asyncio.create_task(self._listen(client, client.stream))
            for client in self.clients
            if client.stream
        ]

    def stop(self) -> None:
        """Receive no more checks."""
        for listener in self._listeners:
            listener.cancel()

    async def _listen(self, client: ProbeClient, stream: Telemetry) -> None:
        try:
            while True:
                command = await stream.next(seconds=DAY)
                if command.HasField("recover_orphaned_transaction_command"):
                    self._note_check(client, command.recover_orphaned_transaction_command)
        except (StreamEnded, ConnectionError):
            return

    def _note_check(self, client: ProbeClient, check: pb.RecoverOrphanedTransactionCommand) -> None:
        at = self._scribe.instant()
        self._scribe.history.append(
            Check(
                begun=at,
                ended=at,
                client=client.client_id,
                content=content_of(check.message),
                transaction=check.transaction_id,
            )
        )

    async def reopen(self, step: Step) -> None:
        """Open another stream for the settings of a producer, and end the older ones before or after that."""
        client = self.clients[step.integer("pick") % len(self.clients)]
        if step.integer("again") % 2:
            await client.close_streams(0)
        await client.open_stream()
        await client.send_settings(self.settings())
        self.listen()
        await client.close_streams(1)

    # Sends

    async def send(self, step: Step) -> None:
        """Send one message, or a batch."""
        await self._send(step, self._messages(step))

    async def send_illegal(self, step: Step) -> None:
        """Send a message, or a batch, of which one is illegal."""
        messages = self._messages(step)
        place, fault = step.integer("place") % len(messages), step.text("fault")
        bad = messages[place]
        if fault == "tag":
            bad = replace(bad, content=replace(bad.content, tag="a|b"), is_legal=False)
        elif fault == "topic":
            messages = [replace(bad, content=replace(bad.content, topic=f"{bad.content.topic}-unknown"))]
            await self._send(step, messages)
            return
        elif not self._semantics.checks_leases and place:
            return  # servers look at the type of the first message only
        else:
            other = "FIFO" if bad.type != "FIFO" else "NORMAL"
            group = "x" if other == "FIFO" else ""
            bad = Outgoing(
                content=replace(bad.content, message_group=group, priority=None), type=other, is_legal=False
            )
        messages[place] = bad
        await self._send(step, messages)

    def _messages(self, step: Step) -> list[Outgoing]:
        topic, plan = self._topics[step.integer("topic") % len(self._topics)]
        semantics = self._semantics
        sends_batches = semantics.batches_are_whole and (plan.type == "NORMAL" or semantics.checks_leases)
        count = step.integer("count") if sends_batches else 1
        due = self.due(step) if plan.type == "DELAY" else None
        recovery = step.real("recovery") or None
        return [
            Outgoing(
                content=self.content(topic, plan, step, place),
                type=plan.type,
                deliver_at=due,
                recovery=recovery if plan.type == "TRANSACTION" else None,
            )
            for place in range(count)
        ]

    def due(self, step: Step) -> float:
        """Return the delivery time of a message that is sent now."""
        due = self._scribe.now() + step.real("delay")
        self.horizon = max(self.horizon, due + self._semantics.delay_late)
        return due

    def content(self, topic: str, plan: TopicPlan, step: Step, place: int) -> Content:
        """Return the content of the next message."""
        number = next(self._numbers)
        bare = bool(step.values["bare"])
        salt = step.integer("salt") + (place if self._semantics.checks_leases else 0)
        return Content(
            id=f"{self._prefix}{number:016X}",
            topic=topic,
            body=f"m{number}",
            encoding="GZIP" if salt % 5 == 1 else "IDENTITY",
            tag=step.text("tag") or None,
            keys=() if bare else (f"k{number}", "a", "B")[: 1 + salt % 3],
            properties=() if bare else properties_of(number, salt),
            message_group=step.text("message_group") if plan.type in ("FIFO", "LITE") else "",
            priority=(step.integer("priority") + number) % 4 if plan.type == "PRIORITY" else None,
            born_ms=round((self._scribe.clock.wall() - AGE) * 1000),
        )

    async def _send(self, step: Step, messages: list[Outgoing]) -> None:
        client = self.clients[step.integer("producer") % len(self.clients)]
        begun = self._scribe.instant()
        reply = await client.send(*map(self._wire, messages))
        code = code_of(reply)
        self._scribe.add(
            begun,
            Send(
                client=client.client_id,
                messages=tuple(messages),
                code=code,
                receipts=receipts_of(reply),
            ),
        )
        if code == "OK" and len(reply.entries) == len(messages):
            self._remember(messages, reply.entries)

    def _remember(self, messages: list[Outgoing], entries: Iterable[pb.SendResultEntry]) -> None:
        for outgoing, entry in zip(messages, entries, strict=True):
            content = outgoing.content
            if outgoing.deliver_at is not None and entry.recall_handle:
                self._recalls.append((content.id, content.topic, entry.recall_handle))
            if outgoing.type == "TRANSACTION":
                self._transactions.append(_Transaction(content.id, content.topic, entry.transaction_id))

    def _wire(self, outgoing: Outgoing) -> pb.Message:
        content, due = outgoing.content, outgoing.deliver_at
        message = requests.message(
            content.topic,
            gzip.compress(content.body.encode(), mtime=0) if content.encoding == "GZIP" else content.body,
            id=content.id,
            tag=content.tag,
            keys=content.keys,
            properties=dict(content.properties),
            group=content.message_group if outgoing.type == "FIFO" else None,
            born_at=(content.born_ms + 0.01) / 1000,  # servers cut it to milliseconds
            deliver_at=None if due is None else self._scribe.wall(due),
            kind=getattr(pb.MessageType, outgoing.type),
        )
        if outgoing.recovery is not None:
            system = message.system_properties
            requests.duration(system.orphaned_transaction_recovery_duration, outgoing.recovery)
        message.system_properties.body_encoding = pb.Encoding.Value(content.encoding)
        if outgoing.type == "LITE":
            message.system_properties.lite_topic = content.message_group
        if content.priority is not None:
            message.system_properties.priority = content.priority
        return message

    # Transactions and recalls

    async def end(self, step: Step) -> None:
        """Commit or roll back a transaction, one that is decided at times, or send no decision."""
        again = step.integer("again") % 3 == 0 and self._semantics.checks_leases
        decided = [each for each in self._transactions if each.is_decided]
        candidates = (
            decided if again and decided else [each for each in self._transactions if not each.is_decided]
        )
        if not candidates:
            return
        chosen = candidates[step.integer("pick") % len(candidates)]
        client = self.clients[step.integer("pick") % len(self.clients)]
        decision = "unspecified" if step.integer("again") % 16 == 1 else step.kind
        begun = self._scribe.instant()
        reply = await end_transaction(
            client, chosen.topic, chosen.id, RESOLUTIONS[decision], message_id=chosen.message
        )
        chosen.is_decided = chosen.is_decided or decision != "unspecified"
        self._scribe.add(
            begun,
            EndTransaction(
                client=client.client_id,
                topic=chosen.topic,
                message=chosen.message,
                transaction=chosen.id,
                decision=decision,
                code=code_of(reply),
            ),
        )

    async def recall(self, step: Step) -> None:
        """Recall a delayed message, delivered or not."""
        if not self._recalls:
            return
        message, topic, handle = self._recalls[step.integer("pick") % len(self._recalls)]
        client = self.clients[0]
        begun = self._scribe.instant()
        reply = await client.recall(topic, handle)
        self._scribe.add(
            begun,
            Recall(
                client=client.client_id,
                topic=topic,
                message=message,
                code=code_of(reply),
            ),
        )


def properties_of(number: int, salt: int) -> tuple[tuple[str, str], ...]:
    """Return properties in the order of their names, some of which are left out."""
    values = {
        f"{MARK}number": str(number),
        PRICE: str(salt % 12 - 4),
        REGION: REGIONS[salt % len(REGIONS)],
        WEIGHT: f"{salt % 6}.{salt % 2 * 5}",
    }
    return tuple((name, value) for place, (name, value) in enumerate(values.items()) if salt >> place & 3)
