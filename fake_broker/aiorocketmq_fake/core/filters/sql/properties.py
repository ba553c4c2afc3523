"""Properties of a message that an expression sees in addition to user properties (5.6)."""

from aiorocketmq_fake.core.values import limits
from aiorocketmq_fake.core.values.model import StoredMessage

_SERVER_CONSTANTS = {"CLUSTER": "DefaultCluster", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}


def property_of(message: StoredMessage, name: str, *, with_servers: bool) -> str | None:
    """Return the value of a property, None if the message has none of that name.

    System properties have the names of the store: TAGS, KEYS, UNIQ_KEY, the message group. `with_servers` adds those
    that a server's proxy writes, as observed on 5.5.0.
    """
    content = message.content
    text = content.properties.get(name)
    if text is not None:
        return text
    if content.classic is not None and (text := content.classic.properties.get(name)) is not None:
        return text
    if name == "TAGS":
        return content.tag or None
    if name == "KEYS":
        return " ".join(content.keys) or None
    if name == "UNIQ_KEY":
        return content.message_id
    if name == limits.MESSAGE_GROUP_PROPERTY:
        return content.message_group or None
    if not with_servers:
        return None
    if name == "BORN_TIMESTAMP":
        return str(int((content.born_timestamp or 0.0) * 1000 + 0.5))
    if name == "__BORNHOST":
        return content.born_host or None
    return content.topic if name == "PGROUP" else _SERVER_CONSTANTS.get(name)
