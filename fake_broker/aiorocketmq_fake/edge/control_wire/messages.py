"""One class for each message of the control service; types are in `messages.pyi` (generated; `nox -s wire`)."""

from aiorocketmq.wire.contract import build

from aiorocketmq_fake.edge.control_wire._descriptors import FILES

POOL = build(FILES, globals())
