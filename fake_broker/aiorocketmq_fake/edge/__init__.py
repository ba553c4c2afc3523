"""The servers around the core: everything that can wait or fail."""

from aiorocketmq.wire.grpcio import load_grpcio

load_grpcio()
