"""Values of the classic remoting protocol: additional fields of its messages, members of its groups."""

from collections.abc import Mapping
from dataclasses import field, replace
from types import MappingProxyType

from aiorocketmq_fake.core.values.codes import FilterType
from aiorocketmq_fake.core.values.frozen import value

QueueKey = tuple[str, int]
"""Topic and number of a queue."""

_NONE: Mapping[str, str] = MappingProxyType({})


def _no_properties() -> Mapping[str, str]:
    return _NONE


@value
class Classic:
    """Fields that only a message of the classic protocol has."""

    queue_id: int = -1
    """The queue its producer chose; below 0 any."""
    flag: int = 0
    """The application's own number."""
    sys_flag: int = 0
    """How the body was compressed: bits 0x701."""
    reconsume_times: int = 0
    """Failed attempts before it was sent."""
    max_reconsume_times: int | None = None
    """Of a message for a retry topic: after so many failed attempts it is a dead letter; None: as the group says."""
    delay: float | None = None
    """Seconds from the send until it is visible; None: at once, or at `delivery_timestamp`."""
    properties: Mapping[str, str] = field(default_factory=_no_properties)
    """Properties with reserved names, except those that are fields of the message."""


def with_origin(
    classic: Classic | None, topic: str, message_id: str, more: Mapping[str, str] = _NONE
) -> Classic:
    """Return the fields of a copy that goes to another topic: the origin, unless an earlier copy recorded it, and
    `more` properties."""
    classic = classic or Classic()
    properties = {"RETRY_TOPIC": topic, "ORIGIN_MESSAGE_ID": message_id, **classic.properties, **more}
    return replace(classic, properties=properties)


# Members of groups

NO_CHANNEL = 0
"""The channel of members that have no connection of this protocol."""


@value
class Subscribed:
    """A member's subscription to one topic."""

    topic: str
    expression: str = "*"
    type: FilterType = FilterType.TAG
    version: int = 0
    """When it was made, in the client's milliseconds: a later one replaces an earlier one."""


@value
class Membership:
    """Declaration of one consumer group in a heartbeat; strings are those of the protocol."""

    group: str
    subscriptions: tuple[Subscribed, ...] = ()
    consume_type: str = "CONSUME_ACTIVELY"
    message_model: str = "CLUSTERING"
    consume_from: str = "CONSUME_FROM_LAST_OFFSET"


@value
class Heartbeat:
    """A heartbeat of one client on one connection."""

    client_id: str
    consumers: tuple[Membership, ...] = ()
    producers: tuple[str, ...] = ()
    """Producer groups."""
    language: str = ""
    version: int = 0
    address: str = ""
    """`host:port` of the client."""


@value
class Member:
    """One connection that is registered in a group, or one gRPC client."""

    channel: int
    """The connection's number, or `NO_CHANNEL`."""
    client_id: str
    language: str
    version: int
    address: str


@value
class MembersOfGroup:
    """A consumer group as its members' heartbeats describe it."""

    members: tuple[Member, ...]
    membership: Membership
    """The last one declared; its subscriptions are those of the group."""


# Failed messages


@value
class SendBack:
    """A consumer failed to handle a message and requests its redelivery (CONSUMER_SEND_MSG_BACK)."""

    group: str
    position: int
    """Log position of the message."""
    delay_level: int = 0
    """0: by the group's own retry intervals; below 0: no more attempts."""
    max_reconsume_times: int | None = None
    """None: as the group is configured."""
    origin_id: str = ""
    """The message id of later copies."""


# Outputs


@value
class MembersChanged:
    """The members or topics of a group changed (NOTIFY_CONSUMER_IDS_CHANGED)."""

    group: str


@value
class CloseChannel:
    """A client sent no heartbeat for too long: its connection is closed."""
