"""One row for each call of the contract: its path, its message classes and which sides stream."""

from aiorocketmq.wire.contract import Method, methods_of
from aiorocketmq.wire.messages import POOL

__all__ = ["ADMIN_METHODS", "METHODS", "Method"]

METHODS = methods_of(POOL, "apache.rocketmq.v2.MessagingService")
"""The calls of producers and consumers, by name: `METHODS["SendMessage"]`."""

ADMIN_METHODS = methods_of(POOL, "apache.rocketmq.v2.Admin")
"""The calls of operators, by name; no Apache release up to 5.5.0 serves more than `ChangeLogLevel`."""
