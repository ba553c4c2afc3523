"""The columns of generated recordings: version 1 of docs/reference/recording.md."""

from __future__ import annotations

import pyarrow as pa

VERSION = 1
REQUIRED = frozenset(
    ("run_id", "case_id", "observer", "recorder", "seq", "boot", "kind", "t_wall_us", "t_mono_ns")
)

_SMALL = "epoch queue priority attempt batch_pos code grpc"
_LARGE = """seq t_wall_us t_mono_ns t_real_us invoked_us invoked_seq offset pseq invisible_ms due_us born_us store_us
    server_deliver_us generation commit_offset"""
_TYPES: dict[str, pa.DataType] = {
    **dict.fromkeys(_LARGE.split(), pa.int64()),
    **dict.fromkeys(_SMALL.split(), pa.int32()),
    "auto_renew": pa.bool_(),
    "queues": pa.list_(pa.struct([("broker", pa.string()), ("queue", pa.int32())])),
    "cfg": pa.map_(pa.string(), pa.string()),
    "fault": pa.map_(pa.string(), pa.string()),
    "clk": pa.map_(pa.string(), pa.int64()),
}
"""Columns that are not texts."""

_NAMES = """run_id case_id observer recorder seq boot kind phase op_id t_wall_us t_mono_ns t_real_us invoked_us
    invoked_seq client_id epoch role group topic lite_topic broker queue offset message_id message_group tag priority
    body_sha props_sha producer pseq attempt delivery handle prev_handle batch batch_pos receive_attempt filter
    invisible_ms auto_renew reason due_us born_us store_us server_deliver_us tx_id resolution source code grpc result
    generation queues commit_offset cfg fault clk"""

SCHEMA = pa.schema(
    [pa.field(name, _TYPES.get(name, pa.string()), nullable=name not in REQUIRED) for name in _NAMES.split()],
    metadata={"aiorocketmq.recording.version": str(VERSION)},
)
