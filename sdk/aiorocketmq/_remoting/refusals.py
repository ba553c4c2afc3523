"""Errors for the answer codes of the classic protocol; remoting-protocol.md section 3."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from aiorocketmq._core.bounds import clipped, one_line
from aiorocketmq._remoting.codes import ResponseCode, response_name
from aiorocketmq.errors import (
    BusyError,
    GroupNotFoundError,
    IllegalFilterError,
    IllegalMessageError,
    NotFoundError,
    NotSupportedError,
    OffsetNotFoundError,
    PermissionDeniedError,
    RefusedError,
    ServerError,
    TopicNotFoundError,
)

ERROR_OF_RESPONSE: Mapping[int, type[RefusedError] | type[BusyError]] = MappingProxyType(
    {
        ResponseCode.SYSTEM_ERROR: ServerError,
        ResponseCode.SYSTEM_BUSY: BusyError,
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED: NotSupportedError,
        ResponseCode.TRANSACTION_FAILED: ServerError,
        ResponseCode.FLUSH_DISK_TIMEOUT: ServerError,
        ResponseCode.SLAVE_NOT_AVAILABLE: ServerError,
        ResponseCode.FLUSH_SLAVE_TIMEOUT: ServerError,
        ResponseCode.MESSAGE_ILLEGAL: IllegalMessageError,
        ResponseCode.SERVICE_NOT_AVAILABLE: ServerError,
        ResponseCode.VERSION_NOT_SUPPORTED: NotSupportedError,
        ResponseCode.NO_PERMISSION: PermissionDeniedError,
        ResponseCode.TOPIC_NOT_EXIST: TopicNotFoundError,
        ResponseCode.TOPIC_EXIST_ALREADY: RefusedError,
        # The three of an unanswered pull are outcomes for pull consumers; elsewhere they mean that nothing is there.
        ResponseCode.PULL_NOT_FOUND: NotFoundError,
        ResponseCode.PULL_RETRY_IMMEDIATELY: NotFoundError,
        ResponseCode.PULL_OFFSET_MOVED: OffsetNotFoundError,
        ResponseCode.QUERY_NOT_FOUND: OffsetNotFoundError,
        ResponseCode.SUBSCRIPTION_PARSE_FAILED: IllegalFilterError,
        ResponseCode.SUBSCRIPTION_NOT_EXIST: NotFoundError,
        ResponseCode.SUBSCRIPTION_NOT_LATEST: RefusedError,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: GroupNotFoundError,
        ResponseCode.FILTER_DATA_NOT_EXIST: IllegalFilterError,
        ResponseCode.FILTER_DATA_NOT_LATEST: IllegalFilterError,
        ResponseCode.INVALID_PARAMETER: RefusedError,
        ResponseCode.CONSUMER_NOT_ONLINE: NotFoundError,
        ResponseCode.CONSUME_MSG_TIMEOUT: ServerError,
        ResponseCode.NO_MESSAGE: NotFoundError,
        ResponseCode.POLLING_FULL: BusyError,
        ResponseCode.POLLING_TIMEOUT: NotFoundError,
        ResponseCode.BROKER_NOT_EXIST: NotFoundError,
        ResponseCode.FLOW_CONTROL: BusyError,
        ResponseCode.NOT_LEADER_FOR_QUEUE: RefusedError,
        ResponseCode.ILLEGAL_OPERATION: RefusedError,
        ResponseCode.GO_AWAY: BusyError,
    }
)
"""SUCCESS is no error and therefore absent; a code that is not listed becomes `RefusedError`."""


def remoting_refusal(
    code: int,
    remark: str | None,
    *,
    what: str,
    address: str,
    topic: str | None = None,
    group: str | None = None,
) -> RefusedError | BusyError:
    """Return the error for an answer `code` other than SUCCESS to the request `what`."""
    kind = ERROR_OF_RESPONSE.get(code, RefusedError)
    about = ", ".join(
        f"{word} {value!r}" for word, value in (("topic", topic), ("group", group)) if value is not None
    )
    # Servers append stack traces and links after the first line.
    server_text = one_line((remark or "").strip().partition("\n")[0])
    text = (
        f"the server at {address} refused {what}{f' ({about})' if about else ''} with {response_name(code)}"
        f"{f': {server_text}' if server_text else ''}{f'; {kind.remedy}' if kind.remedy else ''}"
    )
    return kind(
        text, code=code, server_text=clipped(remark or ""), endpoint=address, topic=topic, group=group
    )
