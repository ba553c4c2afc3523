"""Supported request and response codes (3, 4), and the codes of the core's refusals."""

from __future__ import annotations

from enum import IntEnum

from aiorocketmq_fake.core.values.codes import Code

__all__ = [
    "NAME_SERVER",
    "PULLS",
    "SERVED",
    "RequestCode",
    "RequestError",
    "ResponseCode",
    "command_name",
    "response_code",
]


class RequestCode(IntEnum):
    """Request codes."""

    SEND_MESSAGE = 10
    PULL_MESSAGE = 11
    QUERY_MESSAGE = 12
    QUERY_CONSUMER_OFFSET = 14
    UPDATE_CONSUMER_OFFSET = 15
    UPDATE_AND_CREATE_TOPIC = 17
    GET_ALL_TOPIC_CONFIG = 21
    SEARCH_OFFSET_BY_TIMESTAMP = 29
    GET_MAX_OFFSET = 30
    GET_MIN_OFFSET = 31
    GET_EARLIEST_MSG_STORETIME = 32
    VIEW_MESSAGE_BY_ID = 33
    HEART_BEAT = 34
    UNREGISTER_CLIENT = 35
    CONSUMER_SEND_MSG_BACK = 36
    END_TRANSACTION = 37
    GET_CONSUMER_LIST_BY_GROUP = 38
    CHECK_TRANSACTION_STATE = 39
    NOTIFY_CONSUMER_IDS_CHANGED = 40
    LOCK_BATCH_MQ = 41
    UNLOCK_BATCH_MQ = 42
    CHECK_CLIENT_CONFIG = 46
    GET_ROUTEINFO_BY_TOPIC = 105
    GET_BROKER_CLUSTER_INFO = 106
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 201
    GET_TOPIC_STATS_INFO = 202
    GET_CONSUMER_CONNECTION_LIST = 203
    GET_PRODUCER_CONNECTION_LIST = 204
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206
    DELETE_SUBSCRIPTIONGROUP = 207
    GET_CONSUME_STATS = 208
    DELETE_TOPIC_IN_BROKER = 215
    DELETE_TOPIC_IN_NAMESRV = 216
    INVOKE_BROKER_TO_RESET_OFFSET = 222
    GET_CONSUMER_RUNNING_INFO = 307
    SEND_MESSAGE_V2 = 310
    SEND_BATCH_MESSAGE = 320
    GET_TOPIC_CONFIG = 351
    LITE_PULL_MESSAGE = 361
    RECALL_MESSAGE = 370


NAME_SERVER = frozenset(
    {
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        RequestCode.GET_BROKER_CLUSTER_INFO,
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        RequestCode.DELETE_TOPIC_IN_NAMESRV,
    }
)
"""Requests to a name server, without authentication."""
SERVED = frozenset(RequestCode) - {
    RequestCode.CHECK_TRANSACTION_STATE,
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
}
"""Requests of clients; the two others are sent to them."""
PULLS = frozenset({RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE})
"""Requests that may be parked."""


class ResponseCode(IntEnum):
    """Response codes; those that no handler returns are for faults."""

    SUCCESS = 0
    SYSTEM_ERROR = 1
    SYSTEM_BUSY = 2
    REQUEST_CODE_NOT_SUPPORTED = 3
    TRANSACTION_FAILED = 4
    FLUSH_DISK_TIMEOUT = 10
    SLAVE_NOT_AVAILABLE = 11
    FLUSH_SLAVE_TIMEOUT = 12
    MESSAGE_ILLEGAL = 13
    SERVICE_NOT_AVAILABLE = 14
    VERSION_NOT_SUPPORTED = 15
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    TOPIC_EXIST_ALREADY = 18
    PULL_NOT_FOUND = 19
    PULL_RETRY_IMMEDIATELY = 20
    PULL_OFFSET_MOVED = 21
    QUERY_NOT_FOUND = 22
    SUBSCRIPTION_PARSE_FAILED = 23
    SUBSCRIPTION_NOT_EXIST = 24
    SUBSCRIPTION_NOT_LATEST = 25
    SUBSCRIPTION_GROUP_NOT_EXIST = 26
    FILTER_DATA_NOT_EXIST = 27
    FILTER_DATA_NOT_LATEST = 28
    INVALID_PARAMETER = 29
    CONSUMER_NOT_ONLINE = 206
    CONSUME_MSG_TIMEOUT = 207
    NO_MESSAGE = 208
    POLLING_FULL = 209
    POLLING_TIMEOUT = 210
    BROKER_NOT_EXIST = 211
    FLOW_CONTROL = 215
    NOT_LEADER_FOR_QUEUE = 501
    ILLEGAL_OPERATION = 604
    GO_AWAY = 1500


class RequestError(Exception):
    """A request that is answered with another code than SUCCESS."""

    def __init__(self, code: ResponseCode, remark: str) -> None:
        super().__init__(code, remark)
        self.code = code
        self.remark = remark


_CODES = {
    Code.BAD_REQUEST: ResponseCode.INVALID_PARAMETER,
    Code.ILLEGAL_TOPIC: ResponseCode.INVALID_PARAMETER,
    Code.ILLEGAL_CONSUMER_GROUP: ResponseCode.INVALID_PARAMETER,
    Code.ILLEGAL_FILTER_EXPRESSION: ResponseCode.SUBSCRIPTION_PARSE_FAILED,
    Code.ILLEGAL_DELIVERY_TIME: ResponseCode.MESSAGE_ILLEGAL,
    Code.MESSAGE_BODY_TOO_LARGE: ResponseCode.MESSAGE_ILLEGAL,
    Code.MESSAGE_PROPERTIES_TOO_LARGE: ResponseCode.MESSAGE_ILLEGAL,
    Code.FORBIDDEN: ResponseCode.NO_PERMISSION,
    Code.UNAUTHORIZED: ResponseCode.NO_PERMISSION,
    Code.TOPIC_NOT_FOUND: ResponseCode.TOPIC_NOT_EXIST,
    Code.CONSUMER_GROUP_NOT_FOUND: ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    Code.OFFSET_NOT_FOUND: ResponseCode.QUERY_NOT_FOUND,
    Code.TOO_MANY_REQUESTS: ResponseCode.SYSTEM_BUSY,
    # The only refusal of classic commands: the disk is full.
    Code.INTERNAL_SERVER_ERROR: ResponseCode.SERVICE_NOT_AVAILABLE,
}


def command_name(code: int) -> str:
    """Return the name of a request in faults and events, such as `Remoting.PULL_MESSAGE`."""
    try:
        return f"Remoting.{RequestCode(code).name}"
    except ValueError:
        return f"Remoting.{code}"


def response_code(code: Code) -> ResponseCode:
    """Return the code for a refusal of the core."""
    return _CODES.get(code, ResponseCode.SYSTEM_ERROR)
