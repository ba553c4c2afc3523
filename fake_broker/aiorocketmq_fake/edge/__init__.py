"""The servers around the core: all I/O, time and persistence. May import the core; only public modules import it."""

from aiorocketmq.wire.grpcio_settings import grpcio_settings

with grpcio_settings():
    import grpc.aio  # noqa: F401  # the first import decides about its settings
