"""Well-formed messages, settings and resources, any field of which can be set to an illegal value."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterable, Mapping

from aiorocketmq.wire import messages as pb

_RUN = secrets.token_hex(10).upper()
_COUNTER = itertools.count(1)


def message_id() -> str:
    """Return a fresh id in the form that clients use: 34 hex digits beginning with 01 (rule R4.14)."""
    return f"01{_RUN}{next(_COUNTER):012X}"


def resource(name: str, namespace: str = "") -> pb.Resource:
    """Return a topic or group by name."""
    return pb.Resource(name=name, resource_namespace=namespace)


def endpoints(endpoint: str) -> pb.Endpoints:
    """Return `host:port` as clients send it in settings."""
    host, _, port = endpoint.rpartition(":")
    address = pb.Address(host=host.strip("[]"), port=int(port))
    scheme = pb.AddressScheme.IPv4 if host.replace(".", "").isdigit() else pb.AddressScheme.DOMAIN_NAME
    return pb.Endpoints(scheme=pb.AddressScheme.IPv6 if ":" in host else scheme, addresses=[address])


def message(
    topic: str,
    body: bytes | str,
    *,
    id: str | None = None,  # noqa: A002  the wire's own word
    tag: str | None = None,
    keys: Iterable[str] = (),
    properties: Mapping[str, str] | None = None,
    group: str | None = None,
    born_at: float | None = None,
    deliver_at: float | None = None,
    kind: int | None = None,
) -> pb.Message:
    """Return a message as clients send it; `kind` overrides the type that follows from its fields."""
    system = pb.SystemProperties(
        message_id=message_id() if id is None else id,
        born_host="probe",
        body_encoding=pb.Encoding.IDENTITY,
        keys=list(keys),
        message_type=kind if kind is not None else _type_of(group, deliver_at),  # type: ignore[arg-type]  # illegal numbers are allowed
    )
    if tag is not None:
        system.tag = tag
    if group is not None:
        system.message_group = group
    if born_at is not None:
        _stamp(system.born_timestamp, born_at)
    if deliver_at is not None:
        _stamp(system.delivery_timestamp, deliver_at)
    return pb.Message(
        topic=resource(topic),
        user_properties=dict(properties or {}),
        system_properties=system,
        body=body.encode() if isinstance(body, str) else body,
    )


def _type_of(group: str | None, deliver_at: float | None) -> int:
    if deliver_at is not None:
        return pb.MessageType.DELAY
    return pb.MessageType.FIFO if group else pb.MessageType.NORMAL


def _stamp(field: object, at: float) -> None:
    # Only seconds and nanos are set: our Timestamp class is private to our descriptor pool.
    whole, nanos = divmod(round(at * 1_000_000_000), 1_000_000_000)
    field.seconds, field.nanos = whole, nanos  # type: ignore[attr-defined]  # a Timestamp


def duration(field: object, seconds: float) -> None:
    """Set a Duration field to `seconds`, which may be negative."""
    sign = -1 if seconds < 0 else 1
    whole, nanos = divmod(round(abs(seconds) * 1_000_000_000), 1_000_000_000)
    field.seconds, field.nanos = sign * whole, sign * nanos  # type: ignore[attr-defined]  # a Duration


def producer_settings(*topics: str) -> pb.Settings:
    """Return settings of a producer of `topics`."""
    settings = _settings(pb.ClientType.PRODUCER)
    settings.publishing.topics.extend(resource(topic) for topic in topics)
    settings.publishing.SetInParent()
    return settings


def consumer_settings(
    group: str, subscriptions: Mapping[str, str | pb.FilterExpression], kind: int | None = None
) -> pb.Settings:
    """Return settings of a consumer (push by default) of `group`; texts are TAG subscriptions."""
    settings = _settings(pb.ClientType.PUSH_CONSUMER if kind is None else kind)
    settings.subscription.group.name = group
    settings.subscription.subscriptions.extend(
        pb.SubscriptionEntry(topic=resource(topic), expression=filter_of(expression))
        for topic, expression in subscriptions.items()
    )
    return settings


def filter_of(expression: str | pb.FilterExpression) -> pb.FilterExpression:
    """Return a filter; a text is a TAG filter."""
    if not isinstance(expression, str):
        return expression
    return pb.FilterExpression(type=pb.FilterType.TAG, expression=expression)


def _settings(kind: int) -> pb.Settings:
    settings = pb.Settings(
        client_type=kind,  # type: ignore[arg-type]  # illegal numbers are allowed
        user_agent=pb.UA(language=pb.Language.PYTHON, version="5.0.8", platform="conformance"),
    )
    duration(settings.request_timeout, 3)
    return settings
