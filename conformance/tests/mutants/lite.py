"""Cores that break promises about lite topics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.codes import ClientType, Code, LiteAction, Refusal
from aiorocketmq_fake.core.values.model import (
    AckEntry,
    AckOutcome,
    AckRequest,
    AckResult,
    ClientSettings,
    CommandForClient,
    Delivery,
    LiteStart,
    LiteSyncRequest,
    MergedSettings,
    NotifyUnsubscribeLite,
    OutgoingMessage,
    Output,
    Received,
    ReceiveRequest,
    SendOutcome,
)

from conformance.tests.mutants.mutant import Mutant
from conformance.tests.mutants.tampering import Tampering, content


class _Syncs(Broker, ABC):
    """Applies lite subscriptions as changed by `wish`."""

    @abstractmethod
    def wish(self, request: LiteSyncRequest) -> LiteSyncRequest: ...

    def sync_lite_subscription(self, request: LiteSyncRequest, *, now: float) -> None:
        super().sync_lite_subscription(self.wish(request), now=now)


class NothingUnsubscribed(_Syncs):
    """Lite topics that were subscribed to once are delivered for ever."""

    def wish(self, request: LiteSyncRequest) -> LiteSyncRequest:
        if request.action is LiteAction.PARTIAL_REMOVE:
            return replace(request, action=LiteAction.PARTIAL_ADD, names=())
        return replace(request, action=LiteAction.PARTIAL_ADD)


class StartsIgnored(_Syncs):
    """Every new subscriber starts at the first message."""

    def wish(self, request: LiteSyncRequest) -> LiteSyncRequest:
        return replace(request, start=LiteStart(offset=0))


class StartsAtTheEnd(_Syncs):
    """Every new subscriber starts at the end."""

    def wish(self, request: LiteSyncRequest) -> LiteSyncRequest:
        return replace(request, start=LiteStart())


class EverythingSubscribed(Broker):
    """Every subscriber receives every lite topic."""

    def __init__(self, *args: Any, **keywords: Any) -> None:  # Any: handed through as it came
        super().__init__(*args, **keywords)
        self._syncs: dict[str, LiteSyncRequest] = {}

    def sync_lite_subscription(self, request: LiteSyncRequest, *, now: float) -> None:
        self._syncs[request.client_id] = request
        super().sync_lite_subscription(request, now=now)

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        for subscription in self._syncs.values():
            names = tuple(one.lite_topic for one in messages if one.lite_topic)
            wish = replace(subscription, action=LiteAction.PARTIAL_ADD, names=names)
            super().sync_lite_subscription(wish, now=now)
        return super().send(messages, now=now, client_id=client_id)


class NamesUnchecked(Broker):
    """A subscription with an illegal name is answered OK."""

    def sync_lite_subscription(self, request: LiteSyncRequest, *, now: float) -> None:
        try:
            super().sync_lite_subscription(request, now=now)
        except Refusal as refusal:
            if refusal.code is not Code.ILLEGAL_LITE_TOPIC:
                raise


class LiteNamesLost(Tampering):
    """Messages of lite topics are delivered without its name."""

    def delivered(self, request: ReceiveRequest, delivery: Delivery) -> Delivery:
        return content(delivery, lite_topic="")


class EvictionsUntold(Broker):
    """A consumer that loses a lite topic is not notified."""

    def take_outputs(self) -> tuple[Output, ...]:
        return tuple(
            output
            for output in super().take_outputs()
            if not (
                isinstance(output, CommandForClient) and isinstance(output.command, NotifyUnsubscribeLite)
            )
        )


class OneBlocksAll(Tampering):
    """An un-acked message blocks every lite topic of its group."""

    def asked(self, request: ReceiveRequest) -> ReceiveRequest:
        return replace(request, batch_size=0) if self.leases(request.group) else request


class Backwards(Tampering):
    """The messages of a response are in reverse order."""

    def handed(self, request: ReceiveRequest, answer: Received) -> Received:
        return replace(answer, deliveries=answer.deliveries[::-1])


class LeasesForEver(Tampering):
    """Leases last for an hour, whatever was requested."""

    def asked(self, request: ReceiveRequest) -> ReceiveRequest:
        return request if request.auto_renew else replace(request, invisible=3600.0)


class AcksForAll(Broker):
    """An ack settles all in-flight messages of the group."""

    def ack(self, request: AckRequest, *, now: float) -> AckResult:
        result = super().ack(request, now=now)
        for lease in self.leases(request.group):
            entry = AckEntry(lease.message_id, lease.receipt_handle)
            super().ack(AckRequest(lease.client_id, lease.group, lease.topic, (entry,)), now=now)
        return result


class AcksForNothing(Broker):
    """Acks are answered OK and have no effect."""

    def ack(self, request: AckRequest, *, now: float) -> AckResult:
        return AckResult(
            Code.OK,
            tuple(AckOutcome(one.message_id, one.receipt_handle, Code.OK, "") for one in request.entries),
        )


class ParentsEmpty(Tampering):
    """The messages of lite topics are hidden from readers of their parent."""

    def delivered(self, request: ReceiveRequest, delivery: Delivery) -> Delivery:
        return delivery

    def asked(self, request: ReceiveRequest) -> ReceiveRequest:
        client = next((one for one in self.clients() if one.client_id == request.client_id), None)
        lite = client is not None and client.settings.client_type.name.startswith("LITE")
        hidden = not lite and bool(self.lite_topics(request.topic))
        return replace(request, batch_size=0) if hidden else request


class ProgressLostOnRestart(Broker):
    """After a restart every lite topic starts at its beginning."""

    def restart(self, *, now: float) -> None:
        super().restart(now=now)
        for group in self.groups():
            self._lite.forget_group(group.config.name)


class LiteTakenAnywhere(Broker):
    """Messages to lite topics are acknowledged by every topic, and lost."""

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        if any(one.lite_topic for one in messages):
            return tuple(SendOutcome(Code.OK, one.message_id, "", 0, 0) for one in messages)
        return super().send(messages, now=now, client_id=client_id)


class UnboundGroupsTaken(Broker):
    """Lite consumers of groups that are not bound are accepted."""

    def settings(self, client_id: str, settings: ClientSettings, *, now: float) -> MergedSettings:
        try:
            return super().settings(client_id, settings, now=now)
        except Refusal:
            changed = replace(settings, client_type=ClientType.SIMPLE_CONSUMER)
            return super().settings(client_id, changed, now=now)


LITE = (
    Mutant("MU95", ("lite.partial-add-remove", "lite.complete-add"), core=NothingUnsubscribed),
    Mutant(
        "MU96",
        ("lite.suspend",),
        changes={"ordered_suspend_counts": True},
        defect="A suspended lite message counts an attempt.",
    ),
    Mutant(
        "mu-lite-everything", ("lite.only-subscribed", "lite.per-consumer-sets"), core=EverythingSubscribed
    ),
    Mutant(
        "mu-lite-quota",
        ("lite.quota",),
        changes={"lite_quota_margin": 300},
        defect="A few hundred lite topics more than the quota are accepted.",
    ),
    Mutant("mu-lite-names", ("lite.name-limits*",), core=NamesUnchecked),
    Mutant("mu-lite-name-lost", ("lite.auto-create",), core=LiteNamesLost),
    Mutant(
        "mu-lite-from-start",
        (
            "lite.offset[max]",
            "lite.offset[offset-7]",
            "lite.offset[tail-3]",
            "lite.offset-timestamp",
            "lite.offset-last",
        ),
        core=StartsIgnored,
    ),
    Mutant("mu-lite-from-end", ("lite.offset[min]", "lite.offset-last", "lite.expiry"), core=StartsAtTheEnd),
    Mutant("mu-lite-untold", ("lite.notify-unsubscribe",), core=EvictionsUntold),
    Mutant("mu-lite-one-blocks-all", ("lite.names-independent",), core=OneBlocksAll),
    Mutant("mu-lite-backwards", ("lite.order",), core=Backwards),
    Mutant("mu-lite-leases", ("lite.redelivery", "lite.ack-scope"), core=LeasesForEver),
    Mutant("mu-lite-acks-all", ("lite.ack-scope",), core=AcksForAll),
    Mutant("mu-lite-acks-nothing", ("lite.simple-consumer", "lite.resync"), core=AcksForNothing),
    Mutant("mu-lite-parent", ("lite.parent-readers",), core=ParentsEmpty),
    Mutant(
        "mu-lite-for-ever",
        ("lite.expiry",),
        changes={"lite_subscription_life": 1e9},
        defect="Subscriptions never expire.",
    ),
    Mutant("mu-lite-restart", ("lite.resync",), core=ProgressLostOnRestart),
    Mutant("mu-lite-anywhere", ("lite.wrong-topic*", "lite.auto-create"), core=LiteTakenAnywhere),
    Mutant("mu-lite-unbound", ("lite.unbound-group",), core=UnboundGroupsTaken),
)
