"""The schema of recordings, version 1 of docs/reference/recording.md, as read by the audit.

Nothing is inferred from files: missing columns read as null, unknown ones are ignored.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

VERSION = 1
"""The newest supported version; all from 1 to this one can be read."""

REQUIRED = (
    "run_id",
    "case_id",
    "observer",
    "recorder",
    "seq",
    "boot",
    "kind",
    "t_wall_us",
    "t_mono_ns",
)
"""Columns that are never null."""

ESSENTIAL = frozenset(
    {
        *("phase", "op_id", "invoked_us", "group", "topic", "broker", "queue", "offset", "message_id"),
        *("message_group", "attempt", "delivery", "batch", "filter", "tag", "invisible_ms", "due_us"),
        *("body_sha", "client_id", "cfg"),
    }
)
"""Columns that every recorder writes and that checks require; without one in a file the verdict is unknown."""

_TEXT, _INT, _LONG, _FLAG = StringType(), IntegerType(), LongType(), BooleanType()
_QUEUES = ArrayType(StructType([StructField("broker", _TEXT), StructField("queue", _INT)]))

COLUMNS: dict[str, DataType] = {
    "run_id": _TEXT,
    "case_id": _TEXT,
    "observer": _TEXT,
    "recorder": _TEXT,
    "seq": _LONG,
    "boot": _TEXT,
    "kind": _TEXT,
    "phase": _TEXT,
    "op_id": _TEXT,
    "t_wall_us": _LONG,
    "t_mono_ns": _LONG,
    "t_real_us": _LONG,
    "invoked_us": _LONG,
    "invoked_seq": _LONG,
    "client_id": _TEXT,
    "epoch": _INT,
    "role": _TEXT,
    "group": _TEXT,
    "topic": _TEXT,
    "lite_topic": _TEXT,
    "broker": _TEXT,
    "queue": _INT,
    "offset": _LONG,
    "message_id": _TEXT,
    "message_group": _TEXT,
    "tag": _TEXT,
    "priority": _INT,
    "body_sha": _TEXT,
    "props_sha": _TEXT,
    "producer": _TEXT,
    "pseq": _LONG,
    "attempt": _INT,
    "delivery": _TEXT,
    "handle": _TEXT,
    "prev_handle": _TEXT,
    "batch": _TEXT,
    "batch_pos": _INT,
    "receive_attempt": _TEXT,
    "filter": _TEXT,
    "invisible_ms": _LONG,
    "auto_renew": _FLAG,
    "reason": _TEXT,
    "due_us": _LONG,
    "born_us": _LONG,
    "store_us": _LONG,
    "server_deliver_us": _LONG,
    "tx_id": _TEXT,
    "resolution": _TEXT,
    "source": _TEXT,
    "code": _INT,
    "grpc": _INT,
    "result": _TEXT,
    "generation": _LONG,
    "queues": _QUEUES,
    "commit_offset": _LONG,
    "cfg": MapType(_TEXT, _TEXT),
    "fault": MapType(_TEXT, _TEXT),
    "clk": MapType(_TEXT, _LONG),
}


RECORDING = StructType([StructField(name, kind) for name, kind in COLUMNS.items()])
"""All columns are nullable for Spark, as files may lack them."""

_INSTANT = (0, 253_402_300_799_999_999)
"""Microseconds from 1970 to the end of the year 9999, the upper bound of the protocol's timestamps."""
_NUMBER = (0, 10**18)
_INDEX = (0, (1 << 31) - 1)

RANGES: dict[str, tuple[int, int]] = {
    **dict.fromkeys(
        ("t_wall_us", "t_real_us", "invoked_us", "due_us", "born_us", "store_us", "server_deliver_us"),
        _INSTANT,
    ),
    **dict.fromkeys(("seq", "invoked_seq", "offset"), _NUMBER),
    **dict.fromkeys(("epoch", "queue", "batch_pos"), _INDEX),
    # Servers return -1 for an offset that was never committed.
    "commit_offset": (-1, 10**18),
    # An attempt below 1 is a finding of the check `attempts`.
    "attempt": (-(10**9), 10**9),
    # Clients may request negative times; servers reject them.
    "invisible_ms": (-(10**12), 10**12),
}
"""Ranges of columns, so that sums and differences of values fit into 64 bits."""

BY_QUEUE = "(role = 'pull' or role = 'push' and delivery is null)"
"""Condition for deliveries to consumers that read whole queues, without leases."""

READ = f"kind = 'deliver' and offset is not null and {BY_QUEUE} and (role = 'pull' or attempt = 1)"
"""Condition for deliveries from the recorded queue: push consumers read retries from queues of another topic."""

GRAIN = "coalesce(cfg['grain'], if(role = 'pull', 'queue', 'message'))"
"""What the members of an assignment's group share; in early recordings it follows from the role."""
