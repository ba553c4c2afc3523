"""One row for each call of the control service."""

from aiorocketmq.wire.contract import methods_of

from aiorocketmq_fake.edge.control_wire import messages

SERVICE = "aiorocketmq.fake.v1.Control"
METHODS = methods_of(messages.POOL, SERVICE)
"""The calls by name: `METHODS["CreateTopic"]`."""
