"""The schema of recordings for Spark, and the ranges of values (docs/reference/recording.md).

Nothing is inferred from files: missing columns read as null, unknown ones are ignored.
"""

from __future__ import annotations

from aiorocketmq import recording_format
from aiorocketmq.recording_format import REQUIRED, VERSION
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

__all__ = [
    "BY_QUEUE",
    "COLUMNS",
    "ESSENTIAL",
    "GRAIN",
    "RANGES",
    "READ",
    "RECORDING",
    "REQUIRED",
    "SUSPENDED",
    "VERSION",
]

ESSENTIAL = frozenset(
    {
        *("phase", "op_id", "invoked_us", "group", "topic", "broker", "queue", "offset", "message_id"),
        *("message_group", "attempt", "delivery", "batch", "filter", "tag", "invisible_ms", "due_us"),
        *("body_sha", "client_id", "cfg"),
    }
)
"""Columns that every recorder writes and that checks require; without one in a file the verdict is unknown."""

_TEXT, _INT, _LONG = StringType(), IntegerType(), LongType()
_TYPES: dict[str, DataType] = {
    kind.simpleString(): kind
    for kind in (
        *(_TEXT, _INT, _LONG, BooleanType(), MapType(_TEXT, _TEXT), MapType(_TEXT, _LONG)),
        ArrayType(StructType([StructField("broker", _TEXT), StructField("queue", _INT)])),
    )
}
COLUMNS = {name: _TYPES[kind] for name, kind in recording_format.COLUMNS.items()}

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

SUSPENDED = "kind = 'change' and reason = 'suspend'"
"""Condition for changes that give a message back under the same attempt number."""

GRAIN = "coalesce(cfg['grain'], if(role = 'pull', 'queue', 'message'))"
"""What the members of an assignment's group share; in early recordings it follows from the role."""
