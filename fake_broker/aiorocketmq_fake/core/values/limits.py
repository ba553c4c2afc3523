"""Numbers and reserved words that all servers share, each with its rule in `broker-semantics.md`."""

TOPIC_NAME_MAX = 127
"""Characters of a topic name (13.2)."""
GROUP_NAME_MAX = 120
"""Characters of a consumer group name (13.2)."""
NAME_PATTERN = r"[%|a-zA-Z0-9_-]+"
"""Characters of topic and group names (13.2)."""
DISK_HIGH, DISK_CRITICAL, DISK_FULL = 0.75, 0.85, 0.90
"""Disk usage above which cleaning becomes more urgent (11)."""
LITE_TOPIC_PATTERN = r"[a-zA-Z0-9_-]{1,64}"
"""A lite topic's name (R4.31)."""

ENCODED_PROPERTY_BYTES_MAX = 32_767
"""Bytes of all properties as the store encodes them (4.1 row 17)."""
TRANSACTION_MEMORY_MAX = 15
"""Pending decisions of one transaction id at a time (R9.1)."""
SPAN_MAX = 1e10
"""Longest duration that an administrator may set, in seconds; ours, safe in milliseconds."""
QUEUES_MAX = 1024
"""Queues of one topic; ours, to keep mistakes cheap."""

TAGS_LENGTH_MAX = 65_536
"""Characters of a TAG filter; ours, for the same reason as the next."""
SQL_LENGTH_MAX = 65_536
"""Characters of an SQL filter; ours, to bound the cost of hostile expressions."""
SQL_DEPTH_MAX = 128
"""Nesting depth of an SQL filter; ours (5.5.0 fails between 100 and 1,000 parentheses)."""

RECEIVE_BATCH = 32
"""Batch size in settings (2.2)."""
LONG_POLLING = 20.0
"""Long-polling timeout in settings (2.2)."""
REQUEST_TIMEOUT = 3.0
"""Used if the client declares none (R2.13)."""

PRODUCER_MAX_ATTEMPTS = 3
"""Send attempts in settings (2.2); also the attempt limit of a producer that receives (R5.1)."""
PRODUCER_BACKOFF = (0.01, 1.0, 2.0)
"""Initial, maximum, multiplier of a producer's back-off (2.2)."""

CLIENT_PROPERTIES_MAX = 32
"""Client properties of settings (R2.18)."""
CLIENT_PROPERTY_KEY = r"[a-zA-Z][a-zA-Z0-9_.-]{0,63}"
"""Key of a client property (R2.18)."""
CLIENT_PROPERTY_VALUE_MAX = 256
"""Characters of a client property (R2.18)."""
CLIENT_PROPERTY_BYTES_MAX = 4096
"""UTF-8 bytes of all client properties (R2.18)."""

DELAY_LEVELS = (
    *(1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0, 420.0, 480.0, 540.0, 600.0),
    *(1200.0, 1800.0, 3600.0, 7200.0),
)
"""Seconds of the classic protocol's delay levels, from level 1 on (remoting 6.11)."""
QUEUE_LOCK_LIFE = 60.0
"""Seconds after which a queue lock that was not renewed ends (live remoting 6)."""
CLASSIC_ANSWER_MAX = 262_144
"""Bytes of bodies in the answer to a classic pull, except for one message of any size (remoting 6.8)."""
CLASSIC_QUEUES_MAX = 8
"""Queues of a topic that a classic send creates: not more than the default topic has (live remoting 2)."""
DEFAULT_TOPIC = "TBW102"
"""The topic whose settings an automatically created topic inherits."""

REVIVE_QUEUES = 8
"""Number of revive queues that receipt handles name, round robin (6.1)."""
ORDERED_REVIVE_QUEUE = 999
"""The revive queue in the handles of ordered groups (6.1)."""

RETRY_PREFIX = "%RETRY%"
"""Topics of redeliveries: `%RETRY%{group}_{topic}` (0.2)."""
DEAD_LETTER_PREFIX = "%DLQ%"
"""Topics of dead letters: `%DLQ%{group}` (0.2)."""
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
"""Groups that clients may not name (13.2)."""
SYSTEM_TOPIC_PREFIX = "rmq_sys_"
"""Topics that clients may not name (13.2)."""
SYSTEM_TOPICS = frozenset(
    {
        "TBW102",
        "SCHEDULE_TOPIC_XXXX",
        "BenchmarkTest",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRACE_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "CHECKPOINT_TOPIC",
    }
)
"""Topics that clients may not name (13.2)."""

RESERVED_PROPERTIES = frozenset(
    [
        "TRACE_ON",
        "MSG_REGION",
        "KEYS",
        "TAGS",
        "WAIT",
        "DELAY",
        "RETRY_TOPIC",
        "REAL_TOPIC",
        "REAL_QID",
        "TRAN_MSG",
        "PGROUP",
        "MIN_OFFSET",
        "MAX_OFFSET",
        "BUYER_ID",
        "ORIGIN_MESSAGE_ID",
        "TRANSFER_FLAG",
        "CORRECTION_FLAG",
        "MQ2_FLAG",
        "RECONSUME_TIME",
        "UNIQ_KEY",
        "MAX_RECONSUME_TIMES",
        "CONSUME_START_TIME",
        "POP_CK",
        "POP_CK_OFFSET",
        "1ST_POP_TIME",
        "TRAN_PREPARED_QUEUE_OFFSET",
        "DUP_INFO",
        "EXTEND_UNIQ_INFO",
        "INSTANCE_ID",
        "CORRELATION_ID",
        "REPLY_TO_CLIENT",
        "TTL",
        "ARRIVE_TIME",
        "PUSH_REPLY_TIME",
        "CLUSTER",
        "MSG_TYPE",
        "INNER_MULTI_QUEUE_OFFSET",
        "TIMER_DELAY_MS",
        "TIMER_DELAY_SEC",
        "TIMER_DELIVER_MS",
        "TIMER_ENQUEUE_MS",
        "TIMER_DEQUEUE_MS",
        "TIMER_ROLL_TIMES",
        "TIMER_OUT_MS",
        "TIMER_DEL_UNIQKEY",
        "TIMER_DELAY_LEVEL",
        "__BORNHOST",
        "BORN_TIMESTAMP",
        "DLQ_ORIGIN_TOPIC",
        "DLQ_ORIGIN_MESSAGE_ID",
        "__CRC32#",
        "_SYS_MSG_PRIORITY_",
    ]
)
"""Property keys that users may not set (4.2)."""
MESSAGE_GROUP_PROPERTY = "__SHARDINGKEY"
"""Property in which consumers see the message group (R4.4)."""
PRIORITY_PROPERTY = "_SYS_MSG_PRIORITY_"
"""Property in which members of the remoting protocol send and see the priority (R4.28)."""
TRACE_CONTEXT_PROPERTY = "TRACE_CONTEXT"
"""Property in which consumers see the trace context (R4.4)."""
TRANSACTION_ID_PROPERTY = "__transactionId__"
"""Property in which consumers and checked producers see the transaction id (R4.4)."""
CHECK_TIMES_PROPERTY = "TRANSACTION_CHECK_TIMES"
"""Property in which consumers and checked producers see the number of checks (R4.4)."""
IMMUNITY_PROPERTY = "CHECK_IMMUNITY_TIME_IN_SECONDS"
"""Property in which consumers and checked producers see the recovery duration (R4.4)."""
