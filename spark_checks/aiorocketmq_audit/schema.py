"""The recording's schema as this reader declares it: version 1 of docs/reference/recording.md.

Nothing is inferred from files: a column that a file lacks reads as null, one that it has beyond these is ignored.
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
"""The newest version that this program reads; it reads all from 1 to this one."""

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
"""Columns that are never null; a row without them is not a recording's."""

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
"""All columns are nullable for Spark, as files may lack them; `gates` counts rows without REQUIRED ones."""
