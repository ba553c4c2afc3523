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

class Empty(_Message):
    def __init__(self) -> None: ...

class Description(_Message):
    version: str
    profile: str
    endpoint: str
    tls: bool
    manual_clock: bool
    now: float
    running: bool
    process_id: int
    def __init__(
        self,
        *,
        version: str | None = ...,
        profile: str | None = ...,
        endpoint: str | None = ...,
        tls: bool | None = ...,
        manual_clock: bool | None = ...,
        now: float | None = ...,
        running: bool | None = ...,
        process_id: int | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["version", "profile", "endpoint", "tls", "manual_clock", "now", "running", "process_id"]) -> None: ...

class Name(_Message):
    name: str
    def __init__(
        self,
        *,
        name: str | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["name"]) -> None: ...

class Topic(_Message):
    name: str
    type: str
    read_queues: int
    write_queues: int
    permission: str
    @property
    def min_offsets(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def max_offsets(self) -> RepeatedScalarFieldContainer[int]: ...
    is_internal: bool
    lite_expiration: float
    lite_limit: int
    exist_ok: bool
    def __init__(
        self,
        *,
        name: str | None = ...,
        type: str | None = ...,
        read_queues: int | None = ...,
        write_queues: int | None = ...,
        permission: str | None = ...,
        min_offsets: Iterable[int] | None = ...,
        max_offsets: Iterable[int] | None = ...,
        is_internal: bool | None = ...,
        lite_expiration: float | None = ...,
        lite_limit: int | None = ...,
        exist_ok: bool | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["lite_expiration"]) -> bool: ...
    def ClearField(self, field_name: Literal["name", "type", "read_queues", "write_queues", "permission", "min_offsets", "max_offsets", "is_internal", "lite_expiration", "lite_limit", "exist_ok"]) -> None: ...

class Topics(_Message):
    @property
    def items(self) -> RepeatedCompositeFieldContainer[Topic]: ...
    def __init__(
        self,
        *,
        items: Iterable[Topic] | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["items"]) -> None: ...

class Group(_Message):
    name: str
    ordered: bool
    max_attempts: int
    @property
    def backoff(self) -> RepeatedScalarFieldContainer[float]: ...
    @property
    def client_ids(self) -> RepeatedScalarFieldContainer[str]: ...
    consume_enabled: bool
    lite_topic: str
    lite_quota: int
    lite_exclusive: bool
    exist_ok: bool
    def __init__(
        self,
        *,
        name: str | None = ...,
        ordered: bool | None = ...,
        max_attempts: int | None = ...,
        backoff: Iterable[float] | None = ...,
        client_ids: Iterable[str] | None = ...,
        consume_enabled: bool | None = ...,
        lite_topic: str | None = ...,
        lite_quota: int | None = ...,
        lite_exclusive: bool | None = ...,
        exist_ok: bool | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["consume_enabled"]) -> bool: ...
    def ClearField(self, field_name: Literal["name", "ordered", "max_attempts", "backoff", "client_ids", "consume_enabled", "lite_topic", "lite_quota", "lite_exclusive", "exist_ok"]) -> None: ...

class LiteTopic(_Message):
    name: str
    messages: int
    def __init__(
        self,
        *,
        name: str | None = ...,
        messages: int | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["name", "messages"]) -> None: ...

class LiteTopics(_Message):
    @property
    def items(self) -> RepeatedCompositeFieldContainer[LiteTopic]: ...
    def __init__(
        self,
        *,
        items: Iterable[LiteTopic] | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["items"]) -> None: ...

class Groups(_Message):
    @property
    def items(self) -> RepeatedCompositeFieldContainer[Group]: ...
    def __init__(
        self,
        *,
        items: Iterable[Group] | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["items"]) -> None: ...

class Reset(_Message):
    group: str
    topic: str
    to: str
    time: float
    def __init__(
        self,
        *,
        group: str | None = ...,
        topic: str | None = ...,
        to: str | None = ...,
        time: float | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["group", "topic", "to", "time"]) -> None: ...

class Offsets(_Message):
    @property
    def items(self) -> RepeatedScalarFieldContainer[int]: ...
    def __init__(
        self,
        *,
        items: Iterable[int] | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["items"]) -> None: ...

class Advance(_Message):
    seconds: float
    patience: float
    forget_clients: bool
    def __init__(
        self,
        *,
        seconds: float | None = ...,
        patience: float | None = ...,
        forget_clients: bool | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["seconds", "patience", "forget_clients"]) -> None: ...

class Instant(_Message):
    now: float
    next_deadline: float
    parked: int
    def __init__(
        self,
        *,
        now: float | None = ...,
        next_deadline: float | None = ...,
        parked: int | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["next_deadline"]) -> bool: ...
    def ClearField(self, field_name: Literal["now", "next_deadline", "parked"]) -> None: ...

class FaultRule(_Message):
    rpc: str
    disturbance: str
    client_id: str
    topic: str
    group: str
    times: int
    skip: int
    code: int
    message: str
    status: str
    seconds: float
    frames: int
    hang: bool
    chance: float
    def __init__(
        self,
        *,
        rpc: str | None = ...,
        disturbance: str | None = ...,
        client_id: str | None = ...,
        topic: str | None = ...,
        group: str | None = ...,
        times: int | None = ...,
        skip: int | None = ...,
        code: int | None = ...,
        message: str | None = ...,
        status: str | None = ...,
        seconds: float | None = ...,
        frames: int | None = ...,
        hang: bool | None = ...,
        chance: float | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["client_id", "topic", "group", "times", "chance"]) -> bool: ...
    def ClearField(self, field_name: Literal["rpc", "disturbance", "client_id", "topic", "group", "times", "skip", "code", "message", "status", "seconds", "frames", "hang", "chance"]) -> None: ...

class Fault(_Message):
    number: int
    @property
    def rule(self) -> FaultRule: ...
    hits: int
    def __init__(
        self,
        *,
        number: int | None = ...,
        rule: FaultRule | None = ...,
        hits: int | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["rule"]) -> bool: ...
    def ClearField(self, field_name: Literal["number", "rule", "hits"]) -> None: ...

class Faults(_Message):
    @property
    def items(self) -> RepeatedCompositeFieldContainer[Fault]: ...
    def __init__(
        self,
        *,
        items: Iterable[Fault] | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["items"]) -> None: ...

class FaultNumber(_Message):
    number: int
    def __init__(
        self,
        *,
        number: int | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["number"]) -> None: ...

class Cut(_Message):
    client_id: str
    status: str
    def __init__(
        self,
        *,
        client_id: str | None = ...,
        status: str | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["client_id"]) -> bool: ...
    def ClearField(self, field_name: Literal["client_id", "status"]) -> None: ...

class BrokerState(_Message):
    name: str
    endpoint: str
    is_running: bool
    is_partitioned: bool
    is_paused: bool
    def __init__(
        self,
        *,
        name: str | None = ...,
        endpoint: str | None = ...,
        is_running: bool | None = ...,
        is_partitioned: bool | None = ...,
        is_paused: bool | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["name", "endpoint", "is_running", "is_partitioned", "is_paused"]) -> None: ...

class Brokers(_Message):
    @property
    def items(self) -> RepeatedCompositeFieldContainer[BrokerState]: ...
    def __init__(
        self,
        *,
        items: Iterable[BrokerState] | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["items"]) -> None: ...

class Count(_Message):
    count: int
    def __init__(
        self,
        *,
        count: int | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["count"]) -> None: ...

class User(_Message):
    access_key: str
    secret: str
    @property
    def publish(self) -> RepeatedScalarFieldContainer[str]: ...
    @property
    def subscribe(self) -> RepeatedScalarFieldContainer[str]: ...
    @property
    def groups(self) -> RepeatedScalarFieldContainer[str]: ...
    session_token: str
    enabled: bool
    def __init__(
        self,
        *,
        access_key: str | None = ...,
        secret: str | None = ...,
        publish: Iterable[str] | None = ...,
        subscribe: Iterable[str] | None = ...,
        groups: Iterable[str] | None = ...,
        session_token: str | None = ...,
        enabled: bool | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["access_key", "secret", "publish", "subscribe", "groups", "session_token", "enabled"]) -> None: ...

class Rate(_Message):
    rpc: str
    per_second: float
    def __init__(
        self,
        *,
        rpc: str | None = ...,
        per_second: float | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["per_second"]) -> bool: ...
    def ClearField(self, field_name: Literal["rpc", "per_second"]) -> None: ...

class Rates(_Message):
    @property
    def items(self) -> RepeatedCompositeFieldContainer[Rate]: ...
    def __init__(
        self,
        *,
        items: Iterable[Rate] | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["items"]) -> None: ...

class Retention(_Message):
    retention: float
    disk_used: float
    stage: str
    def __init__(
        self,
        *,
        retention: float | None = ...,
        disk_used: float | None = ...,
        stage: str | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["retention", "disk_used"]) -> bool: ...
    def ClearField(self, field_name: Literal["retention", "disk_used", "stage"]) -> None: ...

class Users(_Message):
    @property
    def items(self) -> RepeatedCompositeFieldContainer[User]: ...
    def __init__(
        self,
        *,
        items: Iterable[User] | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["items"]) -> None: ...

class Which(_Message):
    topic: str
    group: str
    def __init__(
        self,
        *,
        topic: str | None = ...,
        group: str | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["topic", "group"]) -> bool: ...
    def ClearField(self, field_name: Literal["topic", "group"]) -> None: ...

class StoredMessage(_Message):
    topic: str
    body: bytes
    message_id: str
    tag: str
    @property
    def keys(self) -> RepeatedScalarFieldContainer[str]: ...
    @property
    def properties(self) -> ScalarMap[str, str]: ...
    message_group: str
    type: str
    queue: int
    offset: int
    stored_at: float
    born_at: float
    deliver_at: float
    def __init__(
        self,
        *,
        topic: str | None = ...,
        body: bytes | None = ...,
        message_id: str | None = ...,
        tag: str | None = ...,
        keys: Iterable[str] | None = ...,
        properties: Mapping[str, str] | None = ...,
        message_group: str | None = ...,
        type: str | None = ...,
        queue: int | None = ...,
        offset: int | None = ...,
        stored_at: float | None = ...,
        born_at: float | None = ...,
        deliver_at: float | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["deliver_at"]) -> bool: ...
    def ClearField(self, field_name: Literal["topic", "body", "message_id", "tag", "keys", "properties", "message_group", "type", "queue", "offset", "stored_at", "born_at", "deliver_at"]) -> None: ...

class StoredMessages(_Message):
    @property
    def items(self) -> RepeatedCompositeFieldContainer[StoredMessage]: ...
    def __init__(
        self,
        *,
        items: Iterable[StoredMessage] | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["items"]) -> None: ...

class DeliveredMessage(_Message):
    at: float
    topic: str
    group: str
    client_id: str
    message_id: str
    attempt: int
    queue: int
    offset: int
    receipt_handle: str
    body: bytes
    @property
    def message(self) -> StoredMessage: ...
    def __init__(
        self,
        *,
        at: float | None = ...,
        topic: str | None = ...,
        group: str | None = ...,
        client_id: str | None = ...,
        message_id: str | None = ...,
        attempt: int | None = ...,
        queue: int | None = ...,
        offset: int | None = ...,
        receipt_handle: str | None = ...,
        body: bytes | None = ...,
        message: StoredMessage | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["message"]) -> bool: ...
    def ClearField(self, field_name: Literal["at", "topic", "group", "client_id", "message_id", "attempt", "queue", "offset", "receipt_handle", "body", "message"]) -> None: ...

class DeliveredMessages(_Message):
    @property
    def items(self) -> RepeatedCompositeFieldContainer[DeliveredMessage]: ...
    def __init__(
        self,
        *,
        items: Iterable[DeliveredMessage] | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["items"]) -> None: ...

class Client(_Message):
    client_id: str
    type: str
    group: str
    @property
    def topics(self) -> RepeatedScalarFieldContainer[str]: ...
    last_seen: float
    is_live: bool
    def __init__(
        self,
        *,
        client_id: str | None = ...,
        type: str | None = ...,
        group: str | None = ...,
        topics: Iterable[str] | None = ...,
        last_seen: float | None = ...,
        is_live: bool | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["client_id", "type", "group", "topics", "last_seen", "is_live"]) -> None: ...

class Clients(_Message):
    @property
    def items(self) -> RepeatedCompositeFieldContainer[Client]: ...
    def __init__(
        self,
        *,
        items: Iterable[Client] | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["items"]) -> None: ...

class Lease(_Message):
    group: str
    topic: str
    queue: int
    offset: int
    message_id: str
    attempt: int
    client_id: str
    receipt_handle: str
    ends_at: float
    def __init__(
        self,
        *,
        group: str | None = ...,
        topic: str | None = ...,
        queue: int | None = ...,
        offset: int | None = ...,
        message_id: str | None = ...,
        attempt: int | None = ...,
        client_id: str | None = ...,
        receipt_handle: str | None = ...,
        ends_at: float | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["group", "topic", "queue", "offset", "message_id", "attempt", "client_id", "receipt_handle", "ends_at"]) -> None: ...

class Leases(_Message):
    @property
    def items(self) -> RepeatedCompositeFieldContainer[Lease]: ...
    def __init__(
        self,
        *,
        items: Iterable[Lease] | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["items"]) -> None: ...

class Progress(_Message):
    group: str
    topic: str
    queue: int
    offset: int
    min_offset: int
    max_offset: int
    lag: int
    def __init__(
        self,
        *,
        group: str | None = ...,
        topic: str | None = ...,
        queue: int | None = ...,
        offset: int | None = ...,
        min_offset: int | None = ...,
        max_offset: int | None = ...,
        lag: int | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["group", "topic", "queue", "offset", "min_offset", "max_offset", "lag"]) -> None: ...

class Progresses(_Message):
    @property
    def items(self) -> RepeatedCompositeFieldContainer[Progress]: ...
    def __init__(
        self,
        *,
        items: Iterable[Progress] | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["items"]) -> None: ...

class OrderRecord(_Message):
    group: str
    topic: str
    queue_id: int
    message_group: str
    attempt_id: str
    @property
    def offsets(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def acked(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def counts(self) -> RepeatedScalarFieldContainer[int]: ...
    @property
    def visible_at(self) -> RepeatedScalarFieldContainer[float]: ...
    committed: int
    def __init__(
        self,
        *,
        group: str | None = ...,
        topic: str | None = ...,
        queue_id: int | None = ...,
        message_group: str | None = ...,
        attempt_id: str | None = ...,
        offsets: Iterable[int] | None = ...,
        acked: Iterable[int] | None = ...,
        counts: Iterable[int] | None = ...,
        visible_at: Iterable[float] | None = ...,
        committed: int | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["group", "topic", "queue_id", "message_group", "attempt_id", "offsets", "acked", "counts", "visible_at", "committed"]) -> None: ...

class OrderRecords(_Message):
    @property
    def items(self) -> RepeatedCompositeFieldContainer[OrderRecord]: ...
    def __init__(
        self,
        *,
        items: Iterable[OrderRecord] | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["items"]) -> None: ...

class Totals(_Message):
    messages: int
    leases: int
    polls: int
    clients: int
    delayed: int
    half: int
    deadlines: int
    @property
    def by_topic(self) -> ScalarMap[str, int]: ...
    def __init__(
        self,
        *,
        messages: int | None = ...,
        leases: int | None = ...,
        polls: int | None = ...,
        clients: int | None = ...,
        delayed: int | None = ...,
        half: int | None = ...,
        deadlines: int | None = ...,
        by_topic: Mapping[str, int] | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["messages", "leases", "polls", "clients", "delayed", "half", "deadlines", "by_topic"]) -> None: ...

class ClientCommand(_Message):
    client_id: str
    command: str
    topic: str
    message_id: str
    def __init__(
        self,
        *,
        client_id: str | None = ...,
        command: str | None = ...,
        topic: str | None = ...,
        message_id: str | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["client_id", "command", "topic", "message_id"]) -> None: ...

class ClientReply(_Message):
    client_id: str
    nonce: str
    code: int
    text: str
    def __init__(
        self,
        *,
        client_id: str | None = ...,
        nonce: str | None = ...,
        code: int | None = ...,
        text: str | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["client_id", "nonce", "code", "text"]) -> None: ...

class ClientReplies(_Message):
    @property
    def items(self) -> RepeatedCompositeFieldContainer[ClientReply]: ...
    def __init__(
        self,
        *,
        items: Iterable[ClientReply] | None = ...,
    ) -> None: ...
    def ClearField(self, field_name: Literal["items"]) -> None: ...
