"""The servers around the core: everything that can wait or fail."""

from aiorocketmq.wire.grpcio_settings import grpcio_settings

with grpcio_settings():
    import grpc.aio  # noqa: F401  # the first import decides about its settings
