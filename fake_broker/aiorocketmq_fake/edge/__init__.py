"""The servers around the core: all I/O, time and persistence.

A `node` is one broker: its core behind a `driver`, and its ports. `grpc_server`, `messaging`, `streaming` and
`telemetry` serve gRPC, `remoting` the classic protocol, `control_server` the control service; `storage` is the data
folder; `recorder` and `metrics` follow the events. May import `core`, the wire schema, `views` and `options`; only
public modules import it.
"""

from aiorocketmq.wire.grpcio_settings import grpcio_settings

with grpcio_settings():
    import grpc.aio  # noqa: F401  # the first import decides about its settings
