"""Which of the library's errors an answer of the classic protocol becomes; remoting-protocol.md section 3."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from aiorocketmq._core.bounds import one_line
from aiorocketmq._remoting.codes import ResponseCode, response_name
from aiorocketmq.errors import (
    Busy,
    GroupNotFound,
    IllegalFilter,
    IllegalMessage,
    NotFound,
    NotServed,
    OffsetNotFound,
    PermissionDenied,
    Refused,
    ServerFault,
    TopicNotFound,
)

ERROR_OF_RESPONSE: Mapping[int, type[Refused] | type[Busy]] = MappingProxyType(
    {
        ResponseCode.SYSTEM_ERROR: ServerFault,
        ResponseCode.SYSTEM_BUSY: Busy,
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED: NotServed,
        ResponseCode.TRANSACTION_FAILED: ServerFault,
        ResponseCode.FLUSH_DISK_TIMEOUT: ServerFault,
        ResponseCode.SLAVE_NOT_AVAILABLE: ServerFault,
        ResponseCode.FLUSH_SLAVE_TIMEOUT: ServerFault,
        ResponseCode.MESSAGE_ILLEGAL: IllegalMessage,
        ResponseCode.SERVICE_NOT_AVAILABLE: ServerFault,
        ResponseCode.VERSION_NOT_SUPPORTED: NotServed,
        ResponseCode.NO_PERMISSION: PermissionDenied,
        ResponseCode.TOPIC_NOT_EXIST: TopicNotFound,
        ResponseCode.TOPIC_EXIST_ALREADY: Refused,
        # The three of an unanswered pull are outcomes for who pulls; elsewhere they say that nothing is
        # there.
        ResponseCode.PULL_NOT_FOUND: NotFound,
        ResponseCode.PULL_RETRY_IMMEDIATELY: NotFound,
        ResponseCode.PULL_OFFSET_MOVED: OffsetNotFound,
        ResponseCode.QUERY_NOT_FOUND: OffsetNotFound,
        ResponseCode.SUBSCRIPTION_PARSE_FAILED: IllegalFilter,
        ResponseCode.SUBSCRIPTION_NOT_EXIST: NotFound,
        ResponseCode.SUBSCRIPTION_NOT_LATEST: Refused,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: GroupNotFound,
        ResponseCode.FILTER_DATA_NOT_EXIST: IllegalFilter,
        ResponseCode.FILTER_DATA_NOT_LATEST: IllegalFilter,
        ResponseCode.INVALID_PARAMETER: Refused,
        ResponseCode.CONSUMER_NOT_ONLINE: NotFound,
        ResponseCode.CONSUME_MSG_TIMEOUT: ServerFault,
        ResponseCode.NO_MESSAGE: NotFound,
        ResponseCode.POLLING_FULL: Busy,
        ResponseCode.POLLING_TIMEOUT: NotFound,
        ResponseCode.BROKER_NOT_EXIST: NotFound,
        ResponseCode.FLOW_CONTROL: Busy,
        ResponseCode.NOT_LEADER_FOR_QUEUE: Refused,
        ResponseCode.ILLEGAL_OPERATION: Refused,
        ResponseCode.GO_AWAY: Busy,
    }
)
"""SUCCESS is no error and therefore absent; a code that is not listed becomes `Refused`."""


def remoting_refusal(
    code: int, remark: str | None, *, address: str, topic: str | None = None, group: str | None = None
) -> Refused | Busy:
    """The error for an answer `code` other than SUCCESS, its sentence made of the facts given."""
    kind = ERROR_OF_RESPONSE.get(code, Refused)
    about = ", ".join(
        f"{word} {value!r}" for word, value in (("topic", topic), ("group", group)) if value is not None
    )
    # Servers append stack traces and links after the first line.
    said = one_line((remark or "").strip().partition("\n")[0])
    text = (
        f"the server at {address} refused{f' ({about})' if about else ''} with {response_name(code)}"
        f"{f': {said}' if said else ''}{f'; {kind.remedy}' if kind.remedy else ''}"
    )
    return kind(text, code=code, server_text=remark or "", endpoint=address, topic=topic, group=group)
