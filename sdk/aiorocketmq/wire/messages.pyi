"""Types of the contract's messages and enums.

Generated from the .proto files beside it: `nox -s wire -- --write`.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, NewType

from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.internal.containers import (
    MessageMap,
    RepeatedCompositeFieldContainer,
    RepeatedScalarFieldContainer,
    ScalarMap,
)
from google.protobuf.internal.enum_type_wrapper import _EnumTypeWrapper
from google.protobuf.internal.well_known_types import Duration as _Duration
from google.protobuf.internal.well_known_types import Timestamp as _Timestamp
from google.protobuf.message import Message as _Message

POOL: DescriptorPool

class Duration(_Message, _Duration):
    seconds: int
    nanos: int
    def __init__(
        self,
        *,
        seconds: int | None = ...,
        nanos: int | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["seconds", "nanos"]) -> None: ...

class Timestamp(_Message, _Timestamp):
    seconds: int
    nanos: int
    def __init__(
        self,
        *,
        seconds: int | None = ...,
        nanos: int | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["seconds", "nanos"]) -> None: ...

class _TransactionResolution:
    ValueType = NewType("ValueType", int)

class _TransactionResolutionWrapper(_EnumTypeWrapper[_TransactionResolution.ValueType], type):
    TRANSACTION_RESOLUTION_UNSPECIFIED: _TransactionResolution.ValueType
    COMMIT: _TransactionResolution.ValueType
    ROLLBACK: _TransactionResolution.ValueType

class TransactionResolution(_TransactionResolution, metaclass=_TransactionResolutionWrapper): ...

class _TransactionSource:
    ValueType = NewType("ValueType", int)

class _TransactionSourceWrapper(_EnumTypeWrapper[_TransactionSource.ValueType], type):
    SOURCE_UNSPECIFIED: _TransactionSource.ValueType
    SOURCE_CLIENT: _TransactionSource.ValueType
    SOURCE_SERVER_CHECK: _TransactionSource.ValueType

class TransactionSource(_TransactionSource, metaclass=_TransactionSourceWrapper): ...

class _Permission:
    ValueType = NewType("ValueType", int)

class _PermissionWrapper(_EnumTypeWrapper[_Permission.ValueType], type):
    PERMISSION_UNSPECIFIED: _Permission.ValueType
    NONE: _Permission.ValueType
    READ: _Permission.ValueType
    WRITE: _Permission.ValueType
    READ_WRITE: _Permission.ValueType

class Permission(_Permission, metaclass=_PermissionWrapper): ...

class _FilterType:
    ValueType = NewType("ValueType", int)

class _FilterTypeWrapper(_EnumTypeWrapper[_FilterType.ValueType], type):
    FILTER_TYPE_UNSPECIFIED: _FilterType.ValueType
    TAG: _FilterType.ValueType
    SQL: _FilterType.ValueType

class FilterType(_FilterType, metaclass=_FilterTypeWrapper): ...

class _AddressScheme:
    ValueType = NewType("ValueType", int)

class _AddressSchemeWrapper(_EnumTypeWrapper[_AddressScheme.ValueType], type):
    ADDRESS_SCHEME_UNSPECIFIED: _AddressScheme.ValueType
    IPv4: _AddressScheme.ValueType
    IPv6: _AddressScheme.ValueType
    DOMAIN_NAME: _AddressScheme.ValueType

class AddressScheme(_AddressScheme, metaclass=_AddressSchemeWrapper): ...

class _MessageType:
    ValueType = NewType("ValueType", int)

class _MessageTypeWrapper(_EnumTypeWrapper[_MessageType.ValueType], type):
    MESSAGE_TYPE_UNSPECIFIED: _MessageType.ValueType
    NORMAL: _MessageType.ValueType
    FIFO: _MessageType.ValueType
    DELAY: _MessageType.ValueType
    TRANSACTION: _MessageType.ValueType
    LITE: _MessageType.ValueType
    PRIORITY: _MessageType.ValueType

class MessageType(_MessageType, metaclass=_MessageTypeWrapper): ...

class _DigestType:
    ValueType = NewType("ValueType", int)

class _DigestTypeWrapper(_EnumTypeWrapper[_DigestType.ValueType], type):
    DIGEST_TYPE_UNSPECIFIED: _DigestType.ValueType
    CRC32: _DigestType.ValueType
    MD5: _DigestType.ValueType
    SHA1: _DigestType.ValueType

class DigestType(_DigestType, metaclass=_DigestTypeWrapper): ...

class _ClientType:
    ValueType = NewType("ValueType", int)

class _ClientTypeWrapper(_EnumTypeWrapper[_ClientType.ValueType], type):
    CLIENT_TYPE_UNSPECIFIED: _ClientType.ValueType
    PRODUCER: _ClientType.ValueType
    PUSH_CONSUMER: _ClientType.ValueType
    SIMPLE_CONSUMER: _ClientType.ValueType
    PULL_CONSUMER: _ClientType.ValueType
    LITE_PUSH_CONSUMER: _ClientType.ValueType
    LITE_SIMPLE_CONSUMER: _ClientType.ValueType

class ClientType(_ClientType, metaclass=_ClientTypeWrapper): ...

class _Encoding:
    ValueType = NewType("ValueType", int)

class _EncodingWrapper(_EnumTypeWrapper[_Encoding.ValueType], type):
    ENCODING_UNSPECIFIED: _Encoding.ValueType
    IDENTITY: _Encoding.ValueType
    GZIP: _Encoding.ValueType

class Encoding(_Encoding, metaclass=_EncodingWrapper): ...

class _Code:
    ValueType = NewType("ValueType", int)

class _CodeWrapper(_EnumTypeWrapper[_Code.ValueType], type):
    CODE_UNSPECIFIED: _Code.ValueType
    OK: _Code.ValueType
    MULTIPLE_RESULTS: _Code.ValueType
    BAD_REQUEST: _Code.ValueType
    ILLEGAL_ACCESS_POINT: _Code.ValueType
    ILLEGAL_TOPIC: _Code.ValueType
    ILLEGAL_CONSUMER_GROUP: _Code.ValueType
    ILLEGAL_MESSAGE_TAG: _Code.ValueType
    ILLEGAL_MESSAGE_KEY: _Code.ValueType
    ILLEGAL_MESSAGE_GROUP: _Code.ValueType
    ILLEGAL_MESSAGE_PROPERTY_KEY: _Code.ValueType
    INVALID_TRANSACTION_ID: _Code.ValueType
    ILLEGAL_MESSAGE_ID: _Code.ValueType
    ILLEGAL_FILTER_EXPRESSION: _Code.ValueType
    ILLEGAL_INVISIBLE_TIME: _Code.ValueType
    ILLEGAL_DELIVERY_TIME: _Code.ValueType
    INVALID_RECEIPT_HANDLE: _Code.ValueType
    MESSAGE_PROPERTY_CONFLICT_WITH_TYPE: _Code.ValueType
    UNRECOGNIZED_CLIENT_TYPE: _Code.ValueType
    MESSAGE_CORRUPTED: _Code.ValueType
    CLIENT_ID_REQUIRED: _Code.ValueType
    ILLEGAL_POLLING_TIME: _Code.ValueType
    ILLEGAL_OFFSET: _Code.ValueType
    ILLEGAL_LITE_TOPIC: _Code.ValueType
    INVALID_CLIENT_PROPERTIES: _Code.ValueType
    UNAUTHORIZED: _Code.ValueType
    PAYMENT_REQUIRED: _Code.ValueType
    FORBIDDEN: _Code.ValueType
    NOT_FOUND: _Code.ValueType
    MESSAGE_NOT_FOUND: _Code.ValueType
    TOPIC_NOT_FOUND: _Code.ValueType
    CONSUMER_GROUP_NOT_FOUND: _Code.ValueType
    OFFSET_NOT_FOUND: _Code.ValueType
    REQUEST_TIMEOUT: _Code.ValueType
    PAYLOAD_TOO_LARGE: _Code.ValueType
    MESSAGE_BODY_TOO_LARGE: _Code.ValueType
    MESSAGE_BODY_EMPTY: _Code.ValueType
    PRECONDITION_FAILED: _Code.ValueType
    TOO_MANY_REQUESTS: _Code.ValueType
    LITE_TOPIC_QUOTA_EXCEEDED: _Code.ValueType
    LITE_SUBSCRIPTION_QUOTA_EXCEEDED: _Code.ValueType
    REQUEST_HEADER_FIELDS_TOO_LARGE: _Code.ValueType
    MESSAGE_PROPERTIES_TOO_LARGE: _Code.ValueType
    INTERNAL_ERROR: _Code.ValueType
    INTERNAL_SERVER_ERROR: _Code.ValueType
    HA_NOT_AVAILABLE: _Code.ValueType
    NOT_IMPLEMENTED: _Code.ValueType
    PROXY_TIMEOUT: _Code.ValueType
    MASTER_PERSISTENCE_TIMEOUT: _Code.ValueType
    SLAVE_PERSISTENCE_TIMEOUT: _Code.ValueType
    UNSUPPORTED: _Code.ValueType
    VERSION_UNSUPPORTED: _Code.ValueType
    VERIFY_FIFO_MESSAGE_UNSUPPORTED: _Code.ValueType
    FAILED_TO_CONSUME_MESSAGE: _Code.ValueType

class Code(_Code, metaclass=_CodeWrapper): ...

class _Language:
    ValueType = NewType("ValueType", int)

class _LanguageWrapper(_EnumTypeWrapper[_Language.ValueType], type):
    LANGUAGE_UNSPECIFIED: _Language.ValueType
    JAVA: _Language.ValueType
    CPP: _Language.ValueType
    DOT_NET: _Language.ValueType
    GOLANG: _Language.ValueType
    RUST: _Language.ValueType
    PYTHON: _Language.ValueType
    PHP: _Language.ValueType
    NODE_JS: _Language.ValueType
    RUBY: _Language.ValueType
    OBJECTIVE_C: _Language.ValueType
    DART: _Language.ValueType
    KOTLIN: _Language.ValueType

class Language(_Language, metaclass=_LanguageWrapper): ...

class _LiteSubscriptionAction:
    ValueType = NewType("ValueType", int)

class _LiteSubscriptionActionWrapper(_EnumTypeWrapper[_LiteSubscriptionAction.ValueType], type):
    PARTIAL_ADD: _LiteSubscriptionAction.ValueType
    PARTIAL_REMOVE: _LiteSubscriptionAction.ValueType
    COMPLETE_ADD: _LiteSubscriptionAction.ValueType
    COMPLETE_REMOVE: _LiteSubscriptionAction.ValueType

class LiteSubscriptionAction(_LiteSubscriptionAction, metaclass=_LiteSubscriptionActionWrapper): ...

class _QueryOffsetPolicy:
    ValueType = NewType("ValueType", int)

class _QueryOffsetPolicyWrapper(_EnumTypeWrapper[_QueryOffsetPolicy.ValueType], type):
    BEGINNING: _QueryOffsetPolicy.ValueType
    END: _QueryOffsetPolicy.ValueType
    TIMESTAMP: _QueryOffsetPolicy.ValueType

class QueryOffsetPolicy(_QueryOffsetPolicy, metaclass=_QueryOffsetPolicyWrapper): ...

class FilterExpression(_Message):
    type: FilterType.ValueType
    expression: str
    def __init__(
        self,
        *,
        type: FilterType.ValueType | None = ...,
        expression: str | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["type", "expression"]) -> None: ...

class RetryPolicy(_Message):
    max_attempts: int
    @property
    def exponential_backoff(self) -> ExponentialBackoff: ...
    @property
    def customized_backoff(self) -> CustomizedBackoff: ...
    def __init__(
        self,
        *,
        max_attempts: int | None = ...,
        exponential_backoff: ExponentialBackoff | None = ...,
        customized_backoff: CustomizedBackoff | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["exponential_backoff", "customized_backoff", "strategy"]) -> bool: ...
    def ClearField(self, field_name: Literal["max_attempts", "exponential_backoff", "customized_backoff", "strategy"]) -> None: ...
    def WhichOneof(self, oneof_group: Literal["strategy"]) -> Literal["exponential_backoff", "customized_backoff"] | None: ...

class ExponentialBackoff(_Message):
    @property
    def initial(self) -> Duration: ...
    @property
    def max(self) -> Duration: ...
    multiplier: float
    def __init__(
        self,
        *,
        initial: Duration | None = ...,
        max: Duration | None = ...,
        multiplier: float | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["initial", "max"]) -> bool: ...
    def ClearField(self, field_name: Literal["initial", "max", "multiplier"]) -> None: ...

class CustomizedBackoff(_Message):
    @property
    def next(self) -> RepeatedCompositeFieldContainer[Duration]: ...
    def __init__(
        self,
        *,
        next: Iterable[Duration] | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["next"]) -> None: ...

class Resource(_Message):
    resource_namespace: str
    name: str
    def __init__(
        self,
        *,
        resource_namespace: str | None = ...,
        name: str | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["resource_namespace", "name"]) -> None: ...

class SubscriptionEntry(_Message):
    @property
    def topic(self) -> Resource: ...
    @property
    def expression(self) -> FilterExpression: ...
    def __init__(
        self,
        *,
        topic: Resource | None = ...,
        expression: FilterExpression | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["topic", "expression"]) -> bool: ...
    def ClearField(self, field_name: Literal["topic", "expression"]) -> None: ...

class Address(_Message):
    host: str
    port: int
    def __init__(
        self,
        *,
        host: str | None = ...,
        port: int | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["host", "port"]) -> None: ...

class Endpoints(_Message):
    scheme: AddressScheme.ValueType
    @property
    def addresses(self) -> RepeatedCompositeFieldContainer[Address]: ...
    def __init__(
        self,
        *,
        scheme: AddressScheme.ValueType | None = ...,
        addresses: Iterable[Address] | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["scheme", "addresses"]) -> None: ...

class Broker(_Message):
    name: str
    id: int
    @property
    def endpoints(self) -> Endpoints: ...
    def __init__(
        self,
        *,
        name: str | None = ...,
        id: int | None = ...,
        endpoints: Endpoints | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["endpoints"]) -> bool: ...
    def ClearField(self, field_name: Literal["name", "id", "endpoints"]) -> None: ...

class MessageQueue(_Message):
    @property
    def topic(self) -> Resource: ...
    id: int
    permission: Permission.ValueType
    @property
    def broker(self) -> Broker: ...
    @property
    def accept_message_types(self) -> RepeatedScalarFieldContainer[MessageType.ValueType]: ...
    def __init__(
        self,
        *,
        topic: Resource | None = ...,
        id: int | None = ...,
        permission: Permission.ValueType | None = ...,
        broker: Broker | None = ...,
        accept_message_types: Iterable[MessageType.ValueType] | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["topic", "broker"]) -> bool: ...
    def ClearField(self, field_name: Literal["topic", "id", "permission", "broker", "accept_message_types"]) -> None: ...

class Digest(_Message):
    type: DigestType.ValueType
    checksum: str
    def __init__(
        self,
        *,
        type: DigestType.ValueType | None = ...,
        checksum: str | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["type", "checksum"]) -> None: ...

class SystemProperties(_Message):
    tag: str
    @property
    def keys(self) -> RepeatedScalarFieldContainer[str]: ...
    message_id: str
    @property
    def body_digest(self) -> Digest: ...
    body_encoding: Encoding.ValueType
    message_type: MessageType.ValueType
    @property
    def born_timestamp(self) -> Timestamp: ...
    born_host: str
    @property
    def store_timestamp(self) -> Timestamp: ...
    store_host: str
    @property
    def delivery_timestamp(self) -> Timestamp: ...
    receipt_handle: str
    queue_id: int
    queue_offset: int
    @property
    def invisible_duration(self) -> Duration: ...
    delivery_attempt: int
    message_group: str
    trace_context: str
    @property
    def orphaned_transaction_recovery_duration(self) -> Duration: ...
    @property
    def dead_letter_queue(self) -> DeadLetterQueue: ...
    lite_topic: str
    priority: int
    def __init__(
        self,
        *,
        tag: str | None = ...,
        keys: Iterable[str] | None = ...,
        message_id: str | None = ...,
        body_digest: Digest | None = ...,
        body_encoding: Encoding.ValueType | None = ...,
        message_type: MessageType.ValueType | None = ...,
        born_timestamp: Timestamp | None = ...,
        born_host: str | None = ...,
        store_timestamp: Timestamp | None = ...,
        store_host: str | None = ...,
        delivery_timestamp: Timestamp | None = ...,
        receipt_handle: str | None = ...,
        queue_id: int | None = ...,
        queue_offset: int | None = ...,
        invisible_duration: Duration | None = ...,
        delivery_attempt: int | None = ...,
        message_group: str | None = ...,
        trace_context: str | None = ...,
        orphaned_transaction_recovery_duration: Duration | None = ...,
        dead_letter_queue: DeadLetterQueue | None = ...,
        lite_topic: str | None = ...,
        priority: int | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["tag", "body_digest", "born_timestamp", "store_timestamp", "delivery_timestamp", "receipt_handle", "queue_offset", "invisible_duration", "delivery_attempt", "message_group", "trace_context", "orphaned_transaction_recovery_duration", "dead_letter_queue", "lite_topic", "priority"]) -> bool: ...
    def ClearField(self, field_name: Literal["tag", "keys", "message_id", "body_digest", "body_encoding", "message_type", "born_timestamp", "born_host", "store_timestamp", "store_host", "delivery_timestamp", "receipt_handle", "queue_id", "queue_offset", "invisible_duration", "delivery_attempt", "message_group", "trace_context", "orphaned_transaction_recovery_duration", "dead_letter_queue", "lite_topic", "priority"]) -> None: ...

class DeadLetterQueue(_Message):
    topic: str
    message_id: str
    def __init__(
        self,
        *,
        topic: str | None = ...,
        message_id: str | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["topic", "message_id"]) -> None: ...

class Message(_Message):
    @property
    def topic(self) -> Resource: ...
    @property
    def user_properties(self) -> ScalarMap[str, str]: ...
    @property
    def system_properties(self) -> SystemProperties: ...
    body: bytes
    def __init__(
        self,
        *,
        topic: Resource | None = ...,
        user_properties: Mapping[str, str] | None = ...,
        system_properties: SystemProperties | None = ...,
        body: bytes | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["topic", "system_properties"]) -> bool: ...
    def ClearField(self, field_name: Literal["topic", "user_properties", "system_properties", "body"]) -> None: ...

class Assignment(_Message):
    @property
    def message_queue(self) -> MessageQueue: ...
    def __init__(
        self,
        *,
        message_queue: MessageQueue | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["message_queue"]) -> bool: ...
    def ClearField(self, field_name: Literal["message_queue"]) -> None: ...

class Status(_Message):
    code: Code.ValueType
    message: str
    def __init__(
        self,
        *,
        code: Code.ValueType | None = ...,
        message: str | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["code", "message"]) -> None: ...

class UA(_Message):
    language: Language.ValueType
    version: str
    platform: str
    hostname: str
    def __init__(
        self,
        *,
        language: Language.ValueType | None = ...,
        version: str | None = ...,
        platform: str | None = ...,
        hostname: str | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["language", "version", "platform", "hostname"]) -> None: ...

class Settings(_Message):
    client_type: ClientType.ValueType
    @property
    def access_point(self) -> Endpoints: ...
    @property
    def backoff_policy(self) -> RetryPolicy: ...
    @property
    def request_timeout(self) -> Duration: ...
    @property
    def publishing(self) -> Publishing: ...
    @property
    def subscription(self) -> Subscription: ...
    @property
    def user_agent(self) -> UA: ...
    @property
    def metric(self) -> Metric: ...
    @property
    def client_properties(self) -> ScalarMap[str, str]: ...
    def __init__(
        self,
        *,
        client_type: ClientType.ValueType | None = ...,
        access_point: Endpoints | None = ...,
        backoff_policy: RetryPolicy | None = ...,
        request_timeout: Duration | None = ...,
        publishing: Publishing | None = ...,
        subscription: Subscription | None = ...,
        user_agent: UA | None = ...,
        metric: Metric | None = ...,
        client_properties: Mapping[str, str] | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["client_type", "access_point", "backoff_policy", "request_timeout", "publishing", "subscription", "user_agent", "metric", "pub_sub"]) -> bool: ...
    def ClearField(self, field_name: Literal["client_type", "access_point", "backoff_policy", "request_timeout", "publishing", "subscription", "user_agent", "metric", "client_properties", "pub_sub"]) -> None: ...
    def WhichOneof(self, oneof_group: Literal["pub_sub"]) -> Literal["publishing", "subscription"] | None: ...

class Publishing(_Message):
    @property
    def topics(self) -> RepeatedCompositeFieldContainer[Resource]: ...
    max_body_size: int
    validate_message_type: bool
    def __init__(
        self,
        *,
        topics: Iterable[Resource] | None = ...,
        max_body_size: int | None = ...,
        validate_message_type: bool | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["topics", "max_body_size", "validate_message_type"]) -> None: ...

class Subscription(_Message):
    @property
    def group(self) -> Resource: ...
    @property
    def subscriptions(self) -> RepeatedCompositeFieldContainer[SubscriptionEntry]: ...
    fifo: bool
    receive_batch_size: int
    @property
    def long_polling_timeout(self) -> Duration: ...
    lite_subscription_quota: int
    max_lite_topic_size: int
    def __init__(
        self,
        *,
        group: Resource | None = ...,
        subscriptions: Iterable[SubscriptionEntry] | None = ...,
        fifo: bool | None = ...,
        receive_batch_size: int | None = ...,
        long_polling_timeout: Duration | None = ...,
        lite_subscription_quota: int | None = ...,
        max_lite_topic_size: int | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["group", "fifo", "receive_batch_size", "long_polling_timeout", "lite_subscription_quota", "max_lite_topic_size"]) -> bool: ...
    def ClearField(self, field_name: Literal["group", "subscriptions", "fifo", "receive_batch_size", "long_polling_timeout", "lite_subscription_quota", "max_lite_topic_size"]) -> None: ...

class Metric(_Message):
    on: bool
    @property
    def endpoints(self) -> Endpoints: ...
    def __init__(
        self,
        *,
        on: bool | None = ...,
        endpoints: Endpoints | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["endpoints"]) -> bool: ...
    def ClearField(self, field_name: Literal["on", "endpoints"]) -> None: ...

class _OffsetOption_Policy:
    ValueType = NewType("ValueType", int)

class _OffsetOption_PolicyWrapper(_EnumTypeWrapper[_OffsetOption_Policy.ValueType], type):
    LAST: _OffsetOption_Policy.ValueType
    MIN: _OffsetOption_Policy.ValueType
    MAX: _OffsetOption_Policy.ValueType

class OffsetOption(_Message):
    class Policy(_OffsetOption_Policy, metaclass=_OffsetOption_PolicyWrapper): ...
    LAST: Policy.ValueType
    MIN: Policy.ValueType
    MAX: Policy.ValueType
    policy: OffsetOption.Policy.ValueType
    offset: int
    tail_n: int
    timestamp: int
    def __init__(
        self,
        *,
        policy: OffsetOption.Policy.ValueType | None = ...,
        offset: int | None = ...,
        tail_n: int | None = ...,
        timestamp: int | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["policy", "offset", "tail_n", "timestamp", "offset_type"]) -> bool: ...
    def ClearField(self, field_name: Literal["policy", "offset", "tail_n", "timestamp", "offset_type"]) -> None: ...
    def WhichOneof(self, oneof_group: Literal["offset_type"]) -> Literal["policy", "offset", "tail_n", "timestamp"] | None: ...

class QueryRouteRequest(_Message):
    @property
    def topic(self) -> Resource: ...
    @property
    def endpoints(self) -> Endpoints: ...
    def __init__(
        self,
        *,
        topic: Resource | None = ...,
        endpoints: Endpoints | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["topic", "endpoints"]) -> bool: ...
    def ClearField(self, field_name: Literal["topic", "endpoints"]) -> None: ...

class QueryRouteResponse(_Message):
    @property
    def status(self) -> Status: ...
    @property
    def message_queues(self) -> RepeatedCompositeFieldContainer[MessageQueue]: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
        message_queues: Iterable[MessageQueue] | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status"]) -> bool: ...
    def ClearField(self, field_name: Literal["status", "message_queues"]) -> None: ...

class SendMessageRequest(_Message):
    @property
    def messages(self) -> RepeatedCompositeFieldContainer[Message]: ...
    def __init__(
        self,
        *,
        messages: Iterable[Message] | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["messages"]) -> None: ...

class SendResultEntry(_Message):
    @property
    def status(self) -> Status: ...
    message_id: str
    transaction_id: str
    offset: int
    recall_handle: str
    def __init__(
        self,
        *,
        status: Status | None = ...,
        message_id: str | None = ...,
        transaction_id: str | None = ...,
        offset: int | None = ...,
        recall_handle: str | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status"]) -> bool: ...
    def ClearField(self, field_name: Literal["status", "message_id", "transaction_id", "offset", "recall_handle"]) -> None: ...

class SendMessageResponse(_Message):
    @property
    def status(self) -> Status: ...
    @property
    def entries(self) -> RepeatedCompositeFieldContainer[SendResultEntry]: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
        entries: Iterable[SendResultEntry] | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status"]) -> bool: ...
    def ClearField(self, field_name: Literal["status", "entries"]) -> None: ...

class QueryAssignmentRequest(_Message):
    @property
    def topic(self) -> Resource: ...
    @property
    def group(self) -> Resource: ...
    @property
    def endpoints(self) -> Endpoints: ...
    def __init__(
        self,
        *,
        topic: Resource | None = ...,
        group: Resource | None = ...,
        endpoints: Endpoints | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["topic", "group", "endpoints"]) -> bool: ...
    def ClearField(self, field_name: Literal["topic", "group", "endpoints"]) -> None: ...

class QueryAssignmentResponse(_Message):
    @property
    def status(self) -> Status: ...
    @property
    def assignments(self) -> RepeatedCompositeFieldContainer[Assignment]: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
        assignments: Iterable[Assignment] | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status"]) -> bool: ...
    def ClearField(self, field_name: Literal["status", "assignments"]) -> None: ...

class ReceiveMessageRequest(_Message):
    @property
    def group(self) -> Resource: ...
    @property
    def message_queue(self) -> MessageQueue: ...
    @property
    def filter_expression(self) -> FilterExpression: ...
    batch_size: int
    @property
    def invisible_duration(self) -> Duration: ...
    auto_renew: bool
    @property
    def long_polling_timeout(self) -> Duration: ...
    attempt_id: str
    def __init__(
        self,
        *,
        group: Resource | None = ...,
        message_queue: MessageQueue | None = ...,
        filter_expression: FilterExpression | None = ...,
        batch_size: int | None = ...,
        invisible_duration: Duration | None = ...,
        auto_renew: bool | None = ...,
        long_polling_timeout: Duration | None = ...,
        attempt_id: str | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["group", "message_queue", "filter_expression", "invisible_duration", "long_polling_timeout", "attempt_id"]) -> bool: ...
    def ClearField(self, field_name: Literal["group", "message_queue", "filter_expression", "batch_size", "invisible_duration", "auto_renew", "long_polling_timeout", "attempt_id"]) -> None: ...

class ReceiveMessageResponse(_Message):
    @property
    def status(self) -> Status: ...
    @property
    def message(self) -> Message: ...
    @property
    def delivery_timestamp(self) -> Timestamp: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
        message: Message | None = ...,
        delivery_timestamp: Timestamp | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status", "message", "delivery_timestamp", "content"]) -> bool: ...
    def ClearField(self, field_name: Literal["status", "message", "delivery_timestamp", "content"]) -> None: ...
    def WhichOneof(self, oneof_group: Literal["content"]) -> Literal["status", "message", "delivery_timestamp"] | None: ...

class AckMessageEntry(_Message):
    message_id: str
    receipt_handle: str
    lite_topic: str
    def __init__(
        self,
        *,
        message_id: str | None = ...,
        receipt_handle: str | None = ...,
        lite_topic: str | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["lite_topic"]) -> bool: ...
    def ClearField(self, field_name: Literal["message_id", "receipt_handle", "lite_topic"]) -> None: ...

class AckMessageRequest(_Message):
    @property
    def group(self) -> Resource: ...
    @property
    def topic(self) -> Resource: ...
    @property
    def entries(self) -> RepeatedCompositeFieldContainer[AckMessageEntry]: ...
    def __init__(
        self,
        *,
        group: Resource | None = ...,
        topic: Resource | None = ...,
        entries: Iterable[AckMessageEntry] | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["group", "topic"]) -> bool: ...
    def ClearField(self, field_name: Literal["group", "topic", "entries"]) -> None: ...

class AckMessageResultEntry(_Message):
    message_id: str
    receipt_handle: str
    @property
    def status(self) -> Status: ...
    def __init__(
        self,
        *,
        message_id: str | None = ...,
        receipt_handle: str | None = ...,
        status: Status | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status"]) -> bool: ...
    def ClearField(self, field_name: Literal["message_id", "receipt_handle", "status"]) -> None: ...

class AckMessageResponse(_Message):
    @property
    def status(self) -> Status: ...
    @property
    def entries(self) -> RepeatedCompositeFieldContainer[AckMessageResultEntry]: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
        entries: Iterable[AckMessageResultEntry] | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status"]) -> bool: ...
    def ClearField(self, field_name: Literal["status", "entries"]) -> None: ...

class ForwardMessageToDeadLetterQueueRequest(_Message):
    @property
    def group(self) -> Resource: ...
    @property
    def topic(self) -> Resource: ...
    receipt_handle: str
    message_id: str
    delivery_attempt: int
    max_delivery_attempts: int
    lite_topic: str
    def __init__(
        self,
        *,
        group: Resource | None = ...,
        topic: Resource | None = ...,
        receipt_handle: str | None = ...,
        message_id: str | None = ...,
        delivery_attempt: int | None = ...,
        max_delivery_attempts: int | None = ...,
        lite_topic: str | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["group", "topic", "lite_topic"]) -> bool: ...
    def ClearField(self, field_name: Literal["group", "topic", "receipt_handle", "message_id", "delivery_attempt", "max_delivery_attempts", "lite_topic"]) -> None: ...

class ForwardMessageToDeadLetterQueueResponse(_Message):
    @property
    def status(self) -> Status: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status"]) -> bool: ...
    def ClearField(self, field_name: Literal["status"]) -> None: ...

class HeartbeatRequest(_Message):
    @property
    def group(self) -> Resource: ...
    client_type: ClientType.ValueType
    def __init__(
        self,
        *,
        group: Resource | None = ...,
        client_type: ClientType.ValueType | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["group"]) -> bool: ...
    def ClearField(self, field_name: Literal["group", "client_type"]) -> None: ...

class HeartbeatResponse(_Message):
    @property
    def status(self) -> Status: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status"]) -> bool: ...
    def ClearField(self, field_name: Literal["status"]) -> None: ...

class EndTransactionRequest(_Message):
    @property
    def topic(self) -> Resource: ...
    message_id: str
    transaction_id: str
    resolution: TransactionResolution.ValueType
    source: TransactionSource.ValueType
    trace_context: str
    def __init__(
        self,
        *,
        topic: Resource | None = ...,
        message_id: str | None = ...,
        transaction_id: str | None = ...,
        resolution: TransactionResolution.ValueType | None = ...,
        source: TransactionSource.ValueType | None = ...,
        trace_context: str | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["topic"]) -> bool: ...
    def ClearField(self, field_name: Literal["topic", "message_id", "transaction_id", "resolution", "source", "trace_context"]) -> None: ...

class EndTransactionResponse(_Message):
    @property
    def status(self) -> Status: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status"]) -> bool: ...
    def ClearField(self, field_name: Literal["status"]) -> None: ...

class PrintThreadStackTraceCommand(_Message):
    nonce: str
    def __init__(
        self,
        *,
        nonce: str | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["nonce"]) -> None: ...

class ReconnectEndpointsCommand(_Message):
    nonce: str
    def __init__(
        self,
        *,
        nonce: str | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["nonce"]) -> None: ...

class ThreadStackTrace(_Message):
    nonce: str
    thread_stack_trace: str
    def __init__(
        self,
        *,
        nonce: str | None = ...,
        thread_stack_trace: str | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["thread_stack_trace"]) -> bool: ...
    def ClearField(self, field_name: Literal["nonce", "thread_stack_trace"]) -> None: ...

class VerifyMessageCommand(_Message):
    nonce: str
    @property
    def message(self) -> Message: ...
    def __init__(
        self,
        *,
        nonce: str | None = ...,
        message: Message | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["message"]) -> bool: ...
    def ClearField(self, field_name: Literal["nonce", "message"]) -> None: ...

class VerifyMessageResult(_Message):
    nonce: str
    def __init__(
        self,
        *,
        nonce: str | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["nonce"]) -> None: ...

class RecoverOrphanedTransactionCommand(_Message):
    @property
    def message(self) -> Message: ...
    transaction_id: str
    def __init__(
        self,
        *,
        message: Message | None = ...,
        transaction_id: str | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["message"]) -> bool: ...
    def ClearField(self, field_name: Literal["message", "transaction_id"]) -> None: ...

class NotifyUnsubscribeLiteCommand(_Message):
    lite_topic: str
    def __init__(
        self,
        *,
        lite_topic: str | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["lite_topic"]) -> None: ...

class TelemetryCommand(_Message):
    @property
    def status(self) -> Status: ...
    @property
    def settings(self) -> Settings: ...
    @property
    def thread_stack_trace(self) -> ThreadStackTrace: ...
    @property
    def verify_message_result(self) -> VerifyMessageResult: ...
    @property
    def recover_orphaned_transaction_command(self) -> RecoverOrphanedTransactionCommand: ...
    @property
    def print_thread_stack_trace_command(self) -> PrintThreadStackTraceCommand: ...
    @property
    def verify_message_command(self) -> VerifyMessageCommand: ...
    @property
    def reconnect_endpoints_command(self) -> ReconnectEndpointsCommand: ...
    @property
    def notify_unsubscribe_lite_command(self) -> NotifyUnsubscribeLiteCommand: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
        settings: Settings | None = ...,
        thread_stack_trace: ThreadStackTrace | None = ...,
        verify_message_result: VerifyMessageResult | None = ...,
        recover_orphaned_transaction_command: RecoverOrphanedTransactionCommand | None = ...,
        print_thread_stack_trace_command: PrintThreadStackTraceCommand | None = ...,
        verify_message_command: VerifyMessageCommand | None = ...,
        reconnect_endpoints_command: ReconnectEndpointsCommand | None = ...,
        notify_unsubscribe_lite_command: NotifyUnsubscribeLiteCommand | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status", "settings", "thread_stack_trace", "verify_message_result", "recover_orphaned_transaction_command", "print_thread_stack_trace_command", "verify_message_command", "reconnect_endpoints_command", "notify_unsubscribe_lite_command", "command"]) -> bool: ...
    def ClearField(self, field_name: Literal["status", "settings", "thread_stack_trace", "verify_message_result", "recover_orphaned_transaction_command", "print_thread_stack_trace_command", "verify_message_command", "reconnect_endpoints_command", "notify_unsubscribe_lite_command", "command"]) -> None: ...
    def WhichOneof(self, oneof_group: Literal["command"]) -> Literal["settings", "thread_stack_trace", "verify_message_result", "recover_orphaned_transaction_command", "print_thread_stack_trace_command", "verify_message_command", "reconnect_endpoints_command", "notify_unsubscribe_lite_command"] | None: ...

class NotifyClientTerminationRequest(_Message):
    @property
    def group(self) -> Resource: ...
    def __init__(
        self,
        *,
        group: Resource | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["group"]) -> bool: ...
    def ClearField(self, field_name: Literal["group"]) -> None: ...

class NotifyClientTerminationResponse(_Message):
    @property
    def status(self) -> Status: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status"]) -> bool: ...
    def ClearField(self, field_name: Literal["status"]) -> None: ...

class ChangeInvisibleDurationRequest(_Message):
    @property
    def group(self) -> Resource: ...
    @property
    def topic(self) -> Resource: ...
    receipt_handle: str
    @property
    def invisible_duration(self) -> Duration: ...
    message_id: str
    lite_topic: str
    suspend: bool
    def __init__(
        self,
        *,
        group: Resource | None = ...,
        topic: Resource | None = ...,
        receipt_handle: str | None = ...,
        invisible_duration: Duration | None = ...,
        message_id: str | None = ...,
        lite_topic: str | None = ...,
        suspend: bool | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["group", "topic", "invisible_duration", "lite_topic", "suspend"]) -> bool: ...
    def ClearField(self, field_name: Literal["group", "topic", "receipt_handle", "invisible_duration", "message_id", "lite_topic", "suspend"]) -> None: ...

class ChangeInvisibleDurationResponse(_Message):
    @property
    def status(self) -> Status: ...
    receipt_handle: str
    def __init__(
        self,
        *,
        status: Status | None = ...,
        receipt_handle: str | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status"]) -> bool: ...
    def ClearField(self, field_name: Literal["status", "receipt_handle"]) -> None: ...

class PullMessageRequest(_Message):
    @property
    def group(self) -> Resource: ...
    @property
    def message_queue(self) -> MessageQueue: ...
    offset: int
    batch_size: int
    @property
    def filter_expression(self) -> FilterExpression: ...
    @property
    def long_polling_timeout(self) -> Duration: ...
    def __init__(
        self,
        *,
        group: Resource | None = ...,
        message_queue: MessageQueue | None = ...,
        offset: int | None = ...,
        batch_size: int | None = ...,
        filter_expression: FilterExpression | None = ...,
        long_polling_timeout: Duration | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["group", "message_queue", "filter_expression", "long_polling_timeout"]) -> bool: ...
    def ClearField(self, field_name: Literal["group", "message_queue", "offset", "batch_size", "filter_expression", "long_polling_timeout"]) -> None: ...

class PullMessageResponse(_Message):
    @property
    def status(self) -> Status: ...
    @property
    def message(self) -> Message: ...
    next_offset: int
    def __init__(
        self,
        *,
        status: Status | None = ...,
        message: Message | None = ...,
        next_offset: int | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status", "message", "next_offset", "content"]) -> bool: ...
    def ClearField(self, field_name: Literal["status", "message", "next_offset", "content"]) -> None: ...
    def WhichOneof(self, oneof_group: Literal["content"]) -> Literal["status", "message", "next_offset"] | None: ...

class UpdateOffsetRequest(_Message):
    @property
    def group(self) -> Resource: ...
    @property
    def message_queue(self) -> MessageQueue: ...
    offset: int
    def __init__(
        self,
        *,
        group: Resource | None = ...,
        message_queue: MessageQueue | None = ...,
        offset: int | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["group", "message_queue"]) -> bool: ...
    def ClearField(self, field_name: Literal["group", "message_queue", "offset"]) -> None: ...

class UpdateOffsetResponse(_Message):
    @property
    def status(self) -> Status: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status"]) -> bool: ...
    def ClearField(self, field_name: Literal["status"]) -> None: ...

class GetOffsetRequest(_Message):
    @property
    def group(self) -> Resource: ...
    @property
    def message_queue(self) -> MessageQueue: ...
    def __init__(
        self,
        *,
        group: Resource | None = ...,
        message_queue: MessageQueue | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["group", "message_queue"]) -> bool: ...
    def ClearField(self, field_name: Literal["group", "message_queue"]) -> None: ...

class GetOffsetResponse(_Message):
    @property
    def status(self) -> Status: ...
    offset: int
    def __init__(
        self,
        *,
        status: Status | None = ...,
        offset: int | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status"]) -> bool: ...
    def ClearField(self, field_name: Literal["status", "offset"]) -> None: ...

class QueryOffsetRequest(_Message):
    @property
    def message_queue(self) -> MessageQueue: ...
    query_offset_policy: QueryOffsetPolicy.ValueType
    @property
    def timestamp(self) -> Timestamp: ...
    def __init__(
        self,
        *,
        message_queue: MessageQueue | None = ...,
        query_offset_policy: QueryOffsetPolicy.ValueType | None = ...,
        timestamp: Timestamp | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["message_queue", "timestamp"]) -> bool: ...
    def ClearField(self, field_name: Literal["message_queue", "query_offset_policy", "timestamp"]) -> None: ...

class QueryOffsetResponse(_Message):
    @property
    def status(self) -> Status: ...
    offset: int
    def __init__(
        self,
        *,
        status: Status | None = ...,
        offset: int | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status"]) -> bool: ...
    def ClearField(self, field_name: Literal["status", "offset"]) -> None: ...

class RecallMessageRequest(_Message):
    @property
    def topic(self) -> Resource: ...
    recall_handle: str
    def __init__(
        self,
        *,
        topic: Resource | None = ...,
        recall_handle: str | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["topic"]) -> bool: ...
    def ClearField(self, field_name: Literal["topic", "recall_handle"]) -> None: ...

class RecallMessageResponse(_Message):
    @property
    def status(self) -> Status: ...
    message_id: str
    def __init__(
        self,
        *,
        status: Status | None = ...,
        message_id: str | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status"]) -> bool: ...
    def ClearField(self, field_name: Literal["status", "message_id"]) -> None: ...

class SyncLiteSubscriptionRequest(_Message):
    action: LiteSubscriptionAction.ValueType
    @property
    def topic(self) -> Resource: ...
    @property
    def group(self) -> Resource: ...
    @property
    def lite_topic_set(self) -> RepeatedScalarFieldContainer[str]: ...
    version: int
    @property
    def offset_option(self) -> OffsetOption: ...
    def __init__(
        self,
        *,
        action: LiteSubscriptionAction.ValueType | None = ...,
        topic: Resource | None = ...,
        group: Resource | None = ...,
        lite_topic_set: Iterable[str] | None = ...,
        version: int | None = ...,
        offset_option: OffsetOption | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["topic", "group", "version", "offset_option"]) -> bool: ...
    def ClearField(self, field_name: Literal["action", "topic", "group", "lite_topic_set", "version", "offset_option"]) -> None: ...

class SyncLiteSubscriptionResponse(_Message):
    @property
    def status(self) -> Status: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status"]) -> bool: ...
    def ClearField(self, field_name: Literal["status"]) -> None: ...

class _MessageModel:
    ValueType = NewType("ValueType", int)

class _MessageModelWrapper(_EnumTypeWrapper[_MessageModel.ValueType], type):
    MESSAGE_MODEL_UNSPECIFIED: _MessageModel.ValueType
    CLUSTERING: _MessageModel.ValueType
    BROADCASTING: _MessageModel.ValueType
    LITE_SELECTIVE: _MessageModel.ValueType

class MessageModel(_MessageModel, metaclass=_MessageModelWrapper): ...

class _ChangeLogLevelRequest_Level:
    ValueType = NewType("ValueType", int)

class _ChangeLogLevelRequest_LevelWrapper(_EnumTypeWrapper[_ChangeLogLevelRequest_Level.ValueType], type):
    TRACE: _ChangeLogLevelRequest_Level.ValueType
    DEBUG: _ChangeLogLevelRequest_Level.ValueType
    INFO: _ChangeLogLevelRequest_Level.ValueType
    WARN: _ChangeLogLevelRequest_Level.ValueType
    ERROR: _ChangeLogLevelRequest_Level.ValueType

class ChangeLogLevelRequest(_Message):
    class Level(_ChangeLogLevelRequest_Level, metaclass=_ChangeLogLevelRequest_LevelWrapper): ...
    TRACE: Level.ValueType
    DEBUG: Level.ValueType
    INFO: Level.ValueType
    WARN: Level.ValueType
    ERROR: Level.ValueType
    level: ChangeLogLevelRequest.Level.ValueType
    def __init__(
        self,
        *,
        level: ChangeLogLevelRequest.Level.ValueType | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["level"]) -> None: ...

class ChangeLogLevelResponse(_Message):
    remark: str
    def __init__(
        self,
        *,
        remark: str | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["remark"]) -> None: ...

class DescribeTopicStatusRequest(_Message):
    deployment_name: str
    @property
    def topic(self) -> Resource: ...
    def __init__(
        self,
        *,
        deployment_name: str | None = ...,
        topic: Resource | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["deployment_name", "topic"]) -> bool: ...
    def ClearField(self, field_name: Literal["deployment_name", "topic"]) -> None: ...

class DescribeTopicStatusResponse(_Message):
    @property
    def status(self) -> Status: ...
    topic_message_type: MessageType.ValueType
    description: str
    @property
    def create_timestamp(self) -> Timestamp: ...
    @property
    def tags(self) -> ScalarMap[str, str]: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
        topic_message_type: MessageType.ValueType | None = ...,
        description: str | None = ...,
        create_timestamp: Timestamp | None = ...,
        tags: Mapping[str, str] | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status", "description", "create_timestamp"]) -> bool: ...
    def ClearField(self, field_name: Literal["status", "topic_message_type", "description", "create_timestamp", "tags"]) -> None: ...

class ListSubscriptionRequest(_Message):
    deployment_name: str
    @property
    def topic(self) -> Resource: ...
    @property
    def group(self) -> Resource: ...
    def __init__(
        self,
        *,
        deployment_name: str | None = ...,
        topic: Resource | None = ...,
        group: Resource | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["deployment_name", "topic", "group"]) -> bool: ...
    def ClearField(self, field_name: Literal["deployment_name", "topic", "group"]) -> None: ...

class SubscriptionInfo(_Message):
    @property
    def group(self) -> Resource: ...
    @property
    def topic(self) -> Resource: ...
    @property
    def expression(self) -> FilterExpression: ...
    online: bool
    @property
    def last_update_timestamp(self) -> Timestamp: ...
    message_model: MessageModel.ValueType
    subscription_consistency: bool
    def __init__(
        self,
        *,
        group: Resource | None = ...,
        topic: Resource | None = ...,
        expression: FilterExpression | None = ...,
        online: bool | None = ...,
        last_update_timestamp: Timestamp | None = ...,
        message_model: MessageModel.ValueType | None = ...,
        subscription_consistency: bool | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["group", "topic", "expression", "last_update_timestamp"]) -> bool: ...
    def ClearField(self, field_name: Literal["group", "topic", "expression", "online", "last_update_timestamp", "message_model", "subscription_consistency"]) -> None: ...

class ListSubscriptionResponse(_Message):
    @property
    def status(self) -> Status: ...
    @property
    def subscription_info(self) -> RepeatedCompositeFieldContainer[SubscriptionInfo]: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
        subscription_info: Iterable[SubscriptionInfo] | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status"]) -> bool: ...
    def ClearField(self, field_name: Literal["status", "subscription_info"]) -> None: ...

class DescribeSubscriptionRequest(_Message):
    deployment_name: str
    @property
    def topic(self) -> Resource: ...
    @property
    def group(self) -> Resource: ...
    def __init__(
        self,
        *,
        deployment_name: str | None = ...,
        topic: Resource | None = ...,
        group: Resource | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["deployment_name", "topic", "group"]) -> bool: ...
    def ClearField(self, field_name: Literal["deployment_name", "topic", "group"]) -> None: ...

class DescribeSubscriptionResponse(_Message):
    class ClientSubscriptionInfo(_Message):
        @property
        def client_info(self) -> ClientInfo: ...
        @property
        def subscription_info(self) -> SubscriptionInfo: ...
        def __init__(
            self,
            *,
            client_info: ClientInfo | None = ...,
            subscription_info: SubscriptionInfo | None = ...,
        ) -> None: ...
        def HasField(self, field_name: Literal["client_info", "subscription_info"]) -> bool: ...
        def ClearField(self, field_name: Literal["client_info", "subscription_info"]) -> None: ...

    @property
    def status(self) -> Status: ...
    @property
    def client_subscription_info(self) -> RepeatedCompositeFieldContainer[DescribeSubscriptionResponse.ClientSubscriptionInfo]: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
        client_subscription_info: Iterable[DescribeSubscriptionResponse.ClientSubscriptionInfo] | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status"]) -> bool: ...
    def ClearField(self, field_name: Literal["status", "client_subscription_info"]) -> None: ...

class DeleteSubscriptionRequest(_Message):
    deployment_name: str
    @property
    def topic(self) -> Resource: ...
    @property
    def group(self) -> Resource: ...
    @property
    def expression(self) -> FilterExpression: ...
    def __init__(
        self,
        *,
        deployment_name: str | None = ...,
        topic: Resource | None = ...,
        group: Resource | None = ...,
        expression: FilterExpression | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["deployment_name", "topic", "group", "expression"]) -> bool: ...
    def ClearField(self, field_name: Literal["deployment_name", "topic", "group", "expression"]) -> None: ...

class DeleteSubscriptionResponse(_Message):
    @property
    def status(self) -> Status: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status"]) -> bool: ...
    def ClearField(self, field_name: Literal["status"]) -> None: ...

class ClientInfo(_Message):
    client_id: str
    version: str
    language: str
    hostname: str
    egress_ip: str
    message_model: MessageModel.ValueType
    def __init__(
        self,
        *,
        client_id: str | None = ...,
        version: str | None = ...,
        language: str | None = ...,
        hostname: str | None = ...,
        egress_ip: str | None = ...,
        message_model: MessageModel.ValueType | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["client_id", "version", "language", "hostname", "egress_ip", "message_model"]) -> None: ...

class MessageQueueItem(_Message):
    @property
    def message_queue(self) -> MessageQueue: ...
    @property
    def process_queue_info(self) -> ProcessQueueInfo: ...
    def __init__(
        self,
        *,
        message_queue: MessageQueue | None = ...,
        process_queue_info: ProcessQueueInfo | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["message_queue", "process_queue_info"]) -> bool: ...
    def ClearField(self, field_name: Literal["message_queue", "process_queue_info"]) -> None: ...

class ProcessQueueInfo(_Message):
    commit_offset: int
    cached_msg_min_offset: int
    cached_msg_max_offset: int
    cached_msg_count: int
    cached_msg_size_in_mib: int
    transaction_msg_min_offset: int
    transaction_msg_max_offset: int
    transaction_msg_count: int
    locked: bool
    try_unlock_times: int
    last_lock_timestamp: int
    dropped: bool
    last_pull_timestamp: int
    last_consume_timestamp: int
    def __init__(
        self,
        *,
        commit_offset: int | None = ...,
        cached_msg_min_offset: int | None = ...,
        cached_msg_max_offset: int | None = ...,
        cached_msg_count: int | None = ...,
        cached_msg_size_in_mib: int | None = ...,
        transaction_msg_min_offset: int | None = ...,
        transaction_msg_max_offset: int | None = ...,
        transaction_msg_count: int | None = ...,
        locked: bool | None = ...,
        try_unlock_times: int | None = ...,
        last_lock_timestamp: int | None = ...,
        dropped: bool | None = ...,
        last_pull_timestamp: int | None = ...,
        last_consume_timestamp: int | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["commit_offset", "cached_msg_min_offset", "cached_msg_max_offset", "cached_msg_count", "cached_msg_size_in_mib", "transaction_msg_min_offset", "transaction_msg_max_offset", "transaction_msg_count", "locked", "try_unlock_times", "last_lock_timestamp", "dropped", "last_pull_timestamp", "last_consume_timestamp"]) -> None: ...

class ConsumeStatus(_Message):
    receive_rt: float
    receive_tps: float
    consume_rt: float
    consume_ok_tps: float
    consume_failed_tps: float
    consume_failed_msgs: int
    def __init__(
        self,
        *,
        receive_rt: float | None = ...,
        receive_tps: float | None = ...,
        consume_rt: float | None = ...,
        consume_ok_tps: float | None = ...,
        consume_failed_tps: float | None = ...,
        consume_failed_msgs: int | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["receive_rt", "receive_tps", "consume_rt", "consume_ok_tps", "consume_failed_tps", "consume_failed_msgs"]) -> None: ...

class ConsumerRunningInfo(_Message):
    @property
    def properties(self) -> ScalarMap[str, str]: ...
    @property
    def subscriptions(self) -> MessageMap[str, FilterExpression]: ...
    @property
    def message_queue_table(self) -> RepeatedCompositeFieldContainer[MessageQueueItem]: ...
    @property
    def consume_status_table(self) -> MessageMap[str, ConsumeStatus]: ...
    def __init__(
        self,
        *,
        properties: Mapping[str, str] | None = ...,
        subscriptions: Mapping[str, FilterExpression] | None = ...,
        message_queue_table: Iterable[MessageQueueItem] | None = ...,
        consume_status_table: Mapping[str, ConsumeStatus] | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["properties", "subscriptions", "message_queue_table", "consume_status_table"]) -> None: ...

class DescribeGroupAccumulationRequest(_Message):
    deployment_name: str
    @property
    def group(self) -> Resource: ...
    @property
    def topics(self) -> RepeatedCompositeFieldContainer[Resource]: ...
    lite_topic: str
    def __init__(
        self,
        *,
        deployment_name: str | None = ...,
        group: Resource | None = ...,
        topics: Iterable[Resource] | None = ...,
        lite_topic: str | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["deployment_name", "group", "lite_topic"]) -> bool: ...
    def ClearField(self, field_name: Literal["deployment_name", "group", "topics", "lite_topic"]) -> None: ...

class DescribeGroupAccumulationResponse(_Message):
    class GroupAccumulation(_Message):
        inflight_messages: int
        ready_messages: int
        accumulation: int
        @property
        def deliver_delay_time(self) -> Duration: ...
        last_consume_timestamp: int
        def __init__(
            self,
            *,
            inflight_messages: int | None = ...,
            ready_messages: int | None = ...,
            accumulation: int | None = ...,
            deliver_delay_time: Duration | None = ...,
            last_consume_timestamp: int | None = ...,
        ) -> None: ...
        def HasField(self, field_name: Literal["deliver_delay_time"]) -> bool: ...
        def ClearField(self, field_name: Literal["inflight_messages", "ready_messages", "accumulation", "deliver_delay_time", "last_consume_timestamp"]) -> None: ...

    @property
    def status(self) -> Status: ...
    @property
    def accumulation(self) -> DescribeGroupAccumulationResponse.GroupAccumulation: ...
    @property
    def topic_accumulation(self) -> MessageMap[str, DescribeGroupAccumulationResponse.GroupAccumulation]: ...
    @property
    def lite_topic_accumulation(self) -> MessageMap[str, DescribeGroupAccumulationResponse.GroupAccumulation]: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
        accumulation: DescribeGroupAccumulationResponse.GroupAccumulation | None = ...,
        topic_accumulation: Mapping[str, DescribeGroupAccumulationResponse.GroupAccumulation] | None = ...,
        lite_topic_accumulation: Mapping[str, DescribeGroupAccumulationResponse.GroupAccumulation] | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status", "accumulation"]) -> bool: ...
    def ClearField(self, field_name: Literal["status", "accumulation", "topic_accumulation", "lite_topic_accumulation"]) -> None: ...

class QueryTimeSpanRequest(_Message):
    deployment_name: str
    @property
    def group(self) -> Resource: ...
    @property
    def topics(self) -> RepeatedCompositeFieldContainer[Resource]: ...
    def __init__(
        self,
        *,
        deployment_name: str | None = ...,
        group: Resource | None = ...,
        topics: Iterable[Resource] | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["deployment_name", "group"]) -> bool: ...
    def ClearField(self, field_name: Literal["deployment_name", "group", "topics"]) -> None: ...

class QueryTimeSpanResponse(_Message):
    class QueueTimeSpan(_Message):
        @property
        def message_queue(self) -> MessageQueue: ...
        min_timestamp: int
        max_timestamp: int
        consume_timestamp: int
        delay_time_ms: int
        def __init__(
            self,
            *,
            message_queue: MessageQueue | None = ...,
            min_timestamp: int | None = ...,
            max_timestamp: int | None = ...,
            consume_timestamp: int | None = ...,
            delay_time_ms: int | None = ...,
        ) -> None: ...
        def HasField(self, field_name: Literal["message_queue"]) -> bool: ...
        def ClearField(self, field_name: Literal["message_queue", "min_timestamp", "max_timestamp", "consume_timestamp", "delay_time_ms"]) -> None: ...

    @property
    def status(self) -> Status: ...
    @property
    def queue_time_span_list(self) -> RepeatedCompositeFieldContainer[QueryTimeSpanResponse.QueueTimeSpan]: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
        queue_time_span_list: Iterable[QueryTimeSpanResponse.QueueTimeSpan] | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status"]) -> bool: ...
    def ClearField(self, field_name: Literal["status", "queue_time_span_list"]) -> None: ...

class ListConsumerConnectionRequest(_Message):
    deployment_name: str
    @property
    def group(self) -> Resource: ...
    @property
    def topic(self) -> Resource: ...
    liteTopic: str
    def __init__(
        self,
        *,
        deployment_name: str | None = ...,
        group: Resource | None = ...,
        topic: Resource | None = ...,
        liteTopic: str | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["deployment_name", "group", "topic", "liteTopic"]) -> bool: ...
    def ClearField(self, field_name: Literal["deployment_name", "group", "topic", "liteTopic"]) -> None: ...

class ListConsumerConnectionResponse(_Message):
    @property
    def status(self) -> Status: ...
    @property
    def client_info(self) -> RepeatedCompositeFieldContainer[ClientInfo]: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
        client_info: Iterable[ClientInfo] | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status"]) -> bool: ...
    def ClearField(self, field_name: Literal["status", "client_info"]) -> None: ...

class ResetGroupOffsetRequest(_Message):
    deployment_name: str
    @property
    def group(self) -> Resource: ...
    @property
    def topic(self) -> Resource: ...
    @property
    def reset_timestamp(self) -> Timestamp: ...
    def __init__(
        self,
        *,
        deployment_name: str | None = ...,
        group: Resource | None = ...,
        topic: Resource | None = ...,
        reset_timestamp: Timestamp | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["deployment_name", "group", "topic", "reset_timestamp"]) -> bool: ...
    def ClearField(self, field_name: Literal["deployment_name", "group", "topic", "reset_timestamp"]) -> None: ...

class ResetGroupOffsetResponse(_Message):
    @property
    def status(self) -> Status: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status"]) -> bool: ...
    def ClearField(self, field_name: Literal["status"]) -> None: ...

class ListMessageRequest(_Message):
    deployment_name: str
    @property
    def topic(self) -> Resource: ...
    max_message_nums: int
    @property
    def begin_timestamp(self) -> Timestamp: ...
    @property
    def end_timestamp(self) -> Timestamp: ...
    message_id: str
    message_key: str
    subscription: str
    lite_topic: str
    scroll_id: str
    page_num: int
    page_size: int
    broker_name: str
    queue_id: int
    def __init__(
        self,
        *,
        deployment_name: str | None = ...,
        topic: Resource | None = ...,
        max_message_nums: int | None = ...,
        begin_timestamp: Timestamp | None = ...,
        end_timestamp: Timestamp | None = ...,
        message_id: str | None = ...,
        message_key: str | None = ...,
        subscription: str | None = ...,
        lite_topic: str | None = ...,
        scroll_id: str | None = ...,
        page_num: int | None = ...,
        page_size: int | None = ...,
        broker_name: str | None = ...,
        queue_id: int | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["deployment_name", "topic", "begin_timestamp", "end_timestamp", "message_id", "message_key", "subscription", "lite_topic", "scroll_id", "page_num", "page_size", "broker_name", "queue_id", "search_key"]) -> bool: ...
    def ClearField(self, field_name: Literal["deployment_name", "topic", "max_message_nums", "begin_timestamp", "end_timestamp", "message_id", "message_key", "subscription", "lite_topic", "scroll_id", "page_num", "page_size", "broker_name", "queue_id", "search_key"]) -> None: ...
    def WhichOneof(self, oneof_group: Literal["search_key"]) -> Literal["message_id", "message_key", "subscription", "lite_topic"] | None: ...

class ListMessageResponse(_Message):
    @property
    def status(self) -> Status: ...
    @property
    def messages(self) -> RepeatedCompositeFieldContainer[Message]: ...
    scroll_id: str
    def __init__(
        self,
        *,
        status: Status | None = ...,
        messages: Iterable[Message] | None = ...,
        scroll_id: str | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status"]) -> bool: ...
    def ClearField(self, field_name: Literal["status", "messages", "scroll_id"]) -> None: ...

class PrintThreadStackTraceRequest(_Message):
    deployment_name: str
    client_id: str
    @property
    def group(self) -> Resource: ...
    def __init__(
        self,
        *,
        deployment_name: str | None = ...,
        client_id: str | None = ...,
        group: Resource | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["deployment_name", "group"]) -> bool: ...
    def ClearField(self, field_name: Literal["deployment_name", "client_id", "group"]) -> None: ...

class PrintThreadStackTraceResponse(_Message):
    @property
    def status(self) -> Status: ...
    thread_stack_trace: str
    def __init__(
        self,
        *,
        status: Status | None = ...,
        thread_stack_trace: str | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status", "thread_stack_trace"]) -> bool: ...
    def ClearField(self, field_name: Literal["status", "thread_stack_trace"]) -> None: ...

class VerifyMessageRequest(_Message):
    deployment_name: str
    client_id: str
    @property
    def group(self) -> Resource: ...
    @property
    def topic(self) -> Resource: ...
    message_id: str
    def __init__(
        self,
        *,
        deployment_name: str | None = ...,
        client_id: str | None = ...,
        group: Resource | None = ...,
        topic: Resource | None = ...,
        message_id: str | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["deployment_name", "group", "topic"]) -> bool: ...
    def ClearField(self, field_name: Literal["deployment_name", "client_id", "group", "topic", "message_id"]) -> None: ...

class VerifyMessageResponse(_Message):
    @property
    def status(self) -> Status: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status"]) -> bool: ...
    def ClearField(self, field_name: Literal["status"]) -> None: ...

class AdminSendMessageRequest(_Message):
    deployment_name: str
    @property
    def topic(self) -> Resource: ...
    tag: str
    key: str
    body: bytes
    @property
    def user_properties(self) -> ScalarMap[str, str]: ...
    @property
    def system_properties(self) -> SystemProperties: ...
    @property
    def ext_info(self) -> ScalarMap[str, str]: ...
    def __init__(
        self,
        *,
        deployment_name: str | None = ...,
        topic: Resource | None = ...,
        tag: str | None = ...,
        key: str | None = ...,
        body: bytes | None = ...,
        user_properties: Mapping[str, str] | None = ...,
        system_properties: SystemProperties | None = ...,
        ext_info: Mapping[str, str] | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["deployment_name", "topic", "tag", "key", "system_properties"]) -> bool: ...
    def ClearField(self, field_name: Literal["deployment_name", "topic", "tag", "key", "body", "user_properties", "system_properties", "ext_info"]) -> None: ...

class AdminSendMessageResponse(_Message):
    @property
    def status(self) -> Status: ...
    message_id: str
    def __init__(
        self,
        *,
        status: Status | None = ...,
        message_id: str | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status"]) -> bool: ...
    def ClearField(self, field_name: Literal["status", "message_id"]) -> None: ...

class GetConsumerRunningInfoRequest(_Message):
    deployment_name: str
    @property
    def group(self) -> Resource: ...
    client_id: str
    def __init__(
        self,
        *,
        deployment_name: str | None = ...,
        group: Resource | None = ...,
        client_id: str | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["deployment_name", "group"]) -> bool: ...
    def ClearField(self, field_name: Literal["deployment_name", "group", "client_id"]) -> None: ...

class GetConsumerRunningInfoResponse(_Message):
    @property
    def status(self) -> Status: ...
    @property
    def consumer_running_info(self) -> ConsumerRunningInfo: ...
    def __init__(
        self,
        *,
        status: Status | None = ...,
        consumer_running_info: ConsumerRunningInfo | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status", "consumer_running_info"]) -> bool: ...
    def ClearField(self, field_name: Literal["status", "consumer_running_info"]) -> None: ...

class _GetTopicRouteRequest_NetworkType:
    ValueType = NewType("ValueType", int)

class _GetTopicRouteRequest_NetworkTypeWrapper(_EnumTypeWrapper[_GetTopicRouteRequest_NetworkType.ValueType], type):
    INTERNAL: _GetTopicRouteRequest_NetworkType.ValueType
    INTERNET: _GetTopicRouteRequest_NetworkType.ValueType
    INTRANET: _GetTopicRouteRequest_NetworkType.ValueType

class GetTopicRouteRequest(_Message):
    class NetworkType(_GetTopicRouteRequest_NetworkType, metaclass=_GetTopicRouteRequest_NetworkTypeWrapper): ...
    INTERNAL: NetworkType.ValueType
    INTERNET: NetworkType.ValueType
    INTRANET: NetworkType.ValueType
    deployment_name: str
    @property
    def topic(self) -> Resource: ...
    network_type: GetTopicRouteRequest.NetworkType.ValueType
    protocol_type: str
    stream_request_type: bool
    client_address: str
    def __init__(
        self,
        *,
        deployment_name: str | None = ...,
        topic: Resource | None = ...,
        network_type: GetTopicRouteRequest.NetworkType.ValueType | None = ...,
        protocol_type: str | None = ...,
        stream_request_type: bool | None = ...,
        client_address: str | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["deployment_name", "topic"]) -> bool: ...
    def ClearField(self, field_name: Literal["deployment_name", "topic", "network_type", "protocol_type", "stream_request_type", "client_address"]) -> None: ...

class GetTopicRouteResponse(_Message):
    @property
    def status(self) -> Status: ...
    topic_route_data: str
    def __init__(
        self,
        *,
        status: Status | None = ...,
        topic_route_data: str | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status"]) -> bool: ...
    def ClearField(self, field_name: Literal["status", "topic_route_data"]) -> None: ...

class GetProxyRuntimeStatsRequest(_Message):
    def __init__(self) -> None: ...

class GetProxyRuntimeStatsResponse(_Message):
    @property
    def status(self) -> Status: ...
    proxy_name: str
    version: str
    in_tps: float
    out_tps: float
    connections: int
    producers: int
    consumers: int
    def __init__(
        self,
        *,
        status: Status | None = ...,
        proxy_name: str | None = ...,
        version: str | None = ...,
        in_tps: float | None = ...,
        out_tps: float | None = ...,
        connections: int | None = ...,
        producers: int | None = ...,
        consumers: int | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["status"]) -> bool: ...
    def ClearField(self, field_name: Literal["status", "proxy_name", "version", "in_tps", "out_tps", "connections", "producers", "consumers"]) -> None: ...
