"""Which codes each method may answer, by the tables of the protocol's semantics (1.2, 4.1, 5.1, 6, 9.2, 10.1)."""

from __future__ import annotations

from aiorocketmq_fake.core.values.codes import Code
from aiorocketmq_fake.core.values.profile import Profile

__all__ = ["allowed"]

NAMES = {Code.ILLEGAL_TOPIC, Code.ILLEGAL_CONSUMER_GROUP}
EVERYWHERE = {Code.OK, Code.CLIENT_ID_REQUIRED}
SETTLING = {*NAMES, Code.INVALID_RECEIPT_HANDLE, Code.TOPIC_NOT_FOUND, Code.CONSUMER_GROUP_NOT_FOUND}
OFFSETS = {
    *NAMES,
    *(Code.BAD_REQUEST, Code.ILLEGAL_OFFSET, Code.OFFSET_NOT_FOUND),
    *(Code.TOPIC_NOT_FOUND, Code.CONSUMER_GROUP_NOT_FOUND),
}
TABLE: dict[str, set[Code]] = {
    "QueryRoute": {Code.ILLEGAL_TOPIC, Code.TOPIC_NOT_FOUND, Code.ILLEGAL_ACCESS_POINT},
    "QueryAssignment": {*NAMES, Code.TOPIC_NOT_FOUND, Code.FORBIDDEN, Code.ILLEGAL_ACCESS_POINT},
    "Heartbeat": {Code.UNRECOGNIZED_CLIENT_TYPE, Code.ILLEGAL_CONSUMER_GROUP},
    "NotifyClientTermination": {Code.UNRECOGNIZED_CLIENT_TYPE, Code.ILLEGAL_CONSUMER_GROUP},
    "SendMessage": {
        *(Code.MESSAGE_CORRUPTED, Code.ILLEGAL_TOPIC, Code.MESSAGE_BODY_EMPTY, Code.MESSAGE_BODY_TOO_LARGE),
        *(Code.MESSAGE_PROPERTIES_TOO_LARGE, Code.ILLEGAL_MESSAGE_PROPERTY_KEY, Code.ILLEGAL_MESSAGE_TAG),
        *(Code.ILLEGAL_MESSAGE_KEY, Code.ILLEGAL_MESSAGE_ID, Code.BAD_REQUEST, Code.ILLEGAL_DELIVERY_TIME),
        *(Code.ILLEGAL_MESSAGE_GROUP, Code.ILLEGAL_LITE_TOPIC, Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        *(Code.FORBIDDEN, Code.TOPIC_NOT_FOUND),
    },
    "RecallMessage": {
        Code.ILLEGAL_TOPIC,
        Code.MESSAGE_NOT_FOUND,
        Code.TOPIC_NOT_FOUND,
        Code.BAD_REQUEST,
        Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
    },
    "EndTransaction": {Code.ILLEGAL_TOPIC, Code.INVALID_TRANSACTION_ID},
    "ReceiveMessage": {
        *NAMES,
        *(Code.UNRECOGNIZED_CLIENT_TYPE, Code.ILLEGAL_POLLING_TIME, Code.BAD_REQUEST, Code.FORBIDDEN),
        *(Code.ILLEGAL_INVISIBLE_TIME, Code.ILLEGAL_FILTER_EXPRESSION, Code.TOPIC_NOT_FOUND),
        *(Code.MESSAGE_NOT_FOUND, Code.CONSUMER_GROUP_NOT_FOUND, Code.TOO_MANY_REQUESTS),
    },
    "AckMessage": {*SETTLING, Code.MULTIPLE_RESULTS, Code.BAD_REQUEST},
    "ChangeInvisibleDuration": {*SETTLING, Code.ILLEGAL_INVISIBLE_TIME},
    "ForwardMessageToDeadLetterQueue": SETTLING,
    "PullMessage": {
        *NAMES,
        *(
            Code.ILLEGAL_OFFSET,
            Code.MESSAGE_NOT_FOUND,
            Code.TOPIC_NOT_FOUND,
            Code.BAD_REQUEST,
            Code.FORBIDDEN,
        ),
        *(Code.ILLEGAL_FILTER_EXPRESSION, Code.TOO_MANY_REQUESTS, Code.CONSUMER_GROUP_NOT_FOUND),
        Code.ILLEGAL_POLLING_TIME,
    },
    "UpdateOffset": {
        *NAMES,
        Code.BAD_REQUEST,
        Code.ILLEGAL_OFFSET,
        Code.TOPIC_NOT_FOUND,
        Code.CONSUMER_GROUP_NOT_FOUND,
    },
    "GetOffset": {
        *NAMES,
        Code.BAD_REQUEST,
        Code.OFFSET_NOT_FOUND,
        Code.TOPIC_NOT_FOUND,
        Code.CONSUMER_GROUP_NOT_FOUND,
    },
    "QueryOffset": {Code.ILLEGAL_TOPIC, Code.TOPIC_NOT_FOUND, Code.BAD_REQUEST},
    "SyncLiteSubscription": {
        *NAMES,
        *(Code.ILLEGAL_LITE_TOPIC, Code.BAD_REQUEST, Code.LITE_SUBSCRIPTION_QUOTA_EXCEEDED),
        Code.UNRECOGNIZED_CLIENT_TYPE,
    },
    "Telemetry": {Code.INTERNAL_SERVER_ERROR, Code.ILLEGAL_TOPIC, Code.ILLEGAL_CONSUMER_GROUP},
}


def allowed(method: str, profile: Profile) -> set[Code]:
    """Return the codes that a method may answer; a server that hides its reasons has one more (R1.9)."""
    hidden = (
        {Code.INTERNAL_SERVER_ERROR} if profile.store_refusal_code is Code.INTERNAL_SERVER_ERROR else set()
    )
    return EVERYWHERE | TABLE[method] | hidden
