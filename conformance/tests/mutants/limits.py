"""Cores that do not check limits of requests, or check others."""

from __future__ import annotations

import re
from dataclasses import replace

from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.codes import Code, Refusal
from aiorocketmq_fake.core.values.model import (
    OutgoingMessage,
    Parked,
    Received,
    ReceiveRequest,
    RouteEntry,
    SendOutcome,
)
from aiorocketmq_fake.core.values.profiles import DOCUMENTED

from conformance.tests.mutants.mutant import ROUNDTRIP, SESSION, Mutant

SPARES = (*SESSION, ROUNDTRIP)
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
LONG = 64


class _Lenient(Broker):
    """Changes illegal messages to legal ones with `mend`."""

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        return super().send(tuple(map(self.mend, messages)), now=now, client_id=client_id)

    def mend(self, message: OutgoingMessage) -> OutgoingMessage:
        return message


class RefusedIsStored(Broker):
    """A refused oversized message is stored."""

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        try:
            return super().send(messages, now=now, client_id=client_id)
        except Refusal as refusal:
            if refusal.code is Code.MESSAGE_BODY_TOO_LARGE:
                cut = tuple(
                    replace(message, body=message.body[: DOCUMENTED.body_max]) for message in messages
                )
                super().send(cut, now=now, client_id=client_id)
            raise


class LargeBodiesCut(_Lenient):
    """Bodies that are too large are truncated."""

    def mend(self, message: OutgoingMessage) -> OutgoingMessage:
        return replace(message, body=message.body[: DOCUMENTED.body_max])


class EmptyBodiesTaken(_Lenient):
    """Empty bodies are accepted."""

    def mend(self, message: OutgoingMessage) -> OutgoingMessage:
        return replace(message, body=message.body or b" ")


class PropertiesCountAsBody(Broker):
    """Properties count towards the limit of the body."""

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        for message in messages:
            if len(message.body) + sum(map(len, message.properties.values())) > DOCUMENTED.body_max:
                raise Refusal(Code.MESSAGE_BODY_TOO_LARGE, "too large in all.")
        return super().send(messages, now=now, client_id=client_id)


class LargeAnswersFail(Broker):
    """Receives of more than a megabyte fail."""

    def receive(self, request: ReceiveRequest, *, now: float) -> Received | Parked:
        answer = super().receive(request, now=now)
        if isinstance(answer, Received) and any(
            len(delivery.message.content.body) > 1_000_000 for delivery in answer.deliveries
        ):
            raise Refusal(Code.INTERNAL_SERVER_ERROR, "the answer is too large.")
        return answer


class PropertyBytesUnlimited(_Lenient):
    """The length of properties, tags and keys is not limited."""

    def mend(self, message: OutgoingMessage) -> OutgoingMessage:
        size = len(message.tag) + sum(map(len, message.keys))
        size += sum(len(key) + len(value.encode()) for key, value in message.properties.items())
        if size <= DOCUMENTED.property_bytes_max:
            return message
        return replace(message, tag="", keys=(), properties={})


class PropertyCharactersCounted(_Lenient):
    """Characters of properties are counted, not bytes."""

    def mend(self, message: OutgoingMessage) -> OutgoingMessage:
        return replace(
            message, properties={key: "?" * len(value) for key, value in message.properties.items()}
        )


class PropertyCountUnlimited(_Lenient):
    """The number of properties is not limited."""

    def mend(self, message: OutgoingMessage) -> OutgoingMessage:
        kept = list(message.properties.items())[: DOCUMENTED.property_count_max]
        return replace(message, properties=dict(kept))


class ReservedKeysTaken(_Lenient):
    """Users may set the server's own properties."""

    def mend(self, message: OutgoingMessage) -> OutgoingMessage:
        kept = {
            key: value for key, value in message.properties.items() if key not in limits.RESERVED_PROPERTIES
        }
        return replace(message, properties=kept)


class ControlCharactersTaken(_Lenient):
    """Control characters are accepted in properties."""

    def mend(self, message: OutgoingMessage) -> OutgoingMessage:
        kept = {CONTROL.sub("", key): CONTROL.sub("", value) for key, value in message.properties.items()}
        return replace(message, properties=kept)


class OnlyAsciiKept(_Lenient):
    """Of properties only ASCII is kept."""

    def mend(self, message: OutgoingMessage) -> OutgoingMessage:
        kept = {
            key.encode("ascii", "ignore").decode(): value.encode("ascii", "ignore").decode()
            for key, value in message.properties.items()
        }
        return replace(message, properties=kept)


class TagsUnchecked(_Lenient):
    """Any tag is accepted."""

    def mend(self, message: OutgoingMessage) -> OutgoingMessage:
        return replace(message, tag=CONTROL.sub("", message.tag).replace("|", "").strip())


class KeysUnchecked(_Lenient):
    """Any key is accepted."""

    def mend(self, message: OutgoingMessage) -> OutgoingMessage:
        return replace(message, keys=tuple(CONTROL.sub("", key).strip() for key in message.keys))


class IdsUnchecked(_Lenient):
    """Messages need no id."""

    def mend(self, message: OutgoingMessage) -> OutgoingMessage:
        return replace(message, message_id=message.message_id.strip() or "none")


class MessageGroupsUnchecked(_Lenient):
    """Any message group is accepted."""

    def mend(self, message: OutgoingMessage) -> OutgoingMessage:
        clean = CONTROL.sub("", message.message_group).strip()[: DOCUMENTED.message_group_limit - 1]
        return replace(message, message_group=clean or (message.message_group and "g"))


class IllegalTopicsUnknown(Broker):
    """Sends to illegal topics are answered like those to unknown ones."""

    def send(
        self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
    ) -> tuple[SendOutcome, ...]:
        try:
            return super().send(messages, now=now, client_id=client_id)
        except Refusal as refusal:
            code = Code.TOPIC_NOT_FOUND if refusal.code is Code.ILLEGAL_TOPIC else refusal.code
            raise Refusal(code, refusal.message) from refusal


class IllegalGroupsUnknown(Broker):
    """Assignments of illegal groups are answered like those of unknown ones."""

    def query_assignment(
        self, client_id: str, topic: str, group: str, *, now: float
    ) -> tuple[RouteEntry, ...]:
        try:
            return super().query_assignment(client_id, topic, group, now=now)
        except Refusal as refusal:
            is_legal = refusal.code is not Code.ILLEGAL_CONSUMER_GROUP
            code = refusal.code if is_legal else Code.CONSUMER_GROUP_NOT_FOUND
            raise Refusal(code, refusal.message) from refusal


class NamesShort(Broker):
    """Names of 64 characters are too long."""

    def receive(self, request: ReceiveRequest, *, now: float) -> Received | Parked:
        if len(request.topic) >= LONG:
            raise Refusal(Code.ILLEGAL_TOPIC, "the topic's name is too long.")
        if len(request.group) >= LONG:
            raise Refusal(Code.ILLEGAL_CONSUMER_GROUP, "the group's name is too long.")
        return super().receive(request, now=now)


class RefusalsAreFaults(Broker):
    """A refused route fails the call itself."""

    def query_route(self, topic: str, *, now: float, client_id: str = "") -> tuple[RouteEntry, ...]:
        try:
            return super().query_route(topic, now=now, client_id=client_id)
        except Refusal as refusal:
            raise LookupError(topic) from refusal


MUTANTS = (
    Mutant("MU84", ("limit.error-is-final", "send.body-max*"), SPARES, RefusedIsStored),
    Mutant("mu-large-bodies", ("limit.body[*]",), SPARES, LargeBodiesCut),
    Mutant("mu-empty-bodies", ("limit.body-empty",), SPARES, EmptyBodiesTaken),
    Mutant("mu-body-and-properties", ("limit.body-and-props",), SPARES, PropertiesCountAsBody),
    Mutant("mu-large-answers", ("limit.grpc-frame",), SPARES, LargeAnswersFail),
    Mutant(
        "mu-property-bytes",
        ("limit.props-bytes", "limit.tag-bytes", "limit.key-bytes"),
        SPARES,
        PropertyBytesUnlimited,
    ),
    Mutant("mu-property-characters", ("limit.props-bytes-utf8",), SPARES, PropertyCharactersCounted),
    Mutant("mu-property-count", ("limit.props-count",), SPARES, PropertyCountUnlimited),
    Mutant("mu-reserved-keys", ("limit.props-reserved",), SPARES, ReservedKeysTaken),
    Mutant("mu-control-characters", ("limit.props-control-char[*]",), SPARES, ControlCharactersTaken),
    Mutant("mu-only-ascii", ("limit.props-visible",), SPARES, OnlyAsciiKept),
    Mutant("mu-tags-unchecked", ("limit.tag-illegal[*]",), SPARES, TagsUnchecked),
    Mutant("mu-keys-unchecked", ("limit.key-illegal[*]",), SPARES, KeysUnchecked),
    Mutant("mu-ids-unchecked", ("limit.message-id-blank",), SPARES, IdsUnchecked),
    Mutant(
        "mu-message-groups-unchecked",
        ("limit.message-group-bytes", "limit.message-group-illegal[*]"),
        SPARES,
        MessageGroupsUnchecked,
    ),
    Mutant(
        "mu-illegal-topics-unknown",
        (*(f"limit.topic-name[{how}]" for how in ("chars", "128", "system", "empty")), "limit.names"),
        SPARES,
        IllegalTopicsUnknown,
    ),
    Mutant(
        "mu-illegal-groups-unknown",
        tuple(f"limit.group-name[{how}]" for how in ("chars", "121", "system", "empty")),
        SPARES,
        IllegalGroupsUnknown,
    ),
    Mutant("mu-names-short", ("limit.topic-name[64]", "limit.group-name[64]"), SPARES, NamesShort),
    Mutant("mu-refusals-are-faults", ("limit.rpc-status-vs-body",), SPARES, RefusalsAreFaults),
    Mutant(
        "mu-client-properties-unchecked",
        ("limit.client-properties[*]",),
        SPARES,
        changes={"client_properties_checked": False},
        defect="Client properties are not checked.",
    ),
)
