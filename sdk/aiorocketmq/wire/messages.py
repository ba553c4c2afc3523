"""One class for each message and enum of the contract: `messages.Code`, `messages.SendMessageRequest`, …

The classes live in a descriptor pool of their own: other packages that carry the same contract, Apache's
Python client among them, can be imported into the same process. The price: `Timestamp` and `Duration` are
this module's too, so set their `seconds` and `nanos` (or call `FromDatetime`, `FromNanoseconds` …) instead
of copying a value of `google.protobuf.timestamp_pb2` into them.

What is here, and its types, stands in `messages.pyi` (generated; `nox -s wire`).
"""

from aiorocketmq.wire._descriptors import FILES
from aiorocketmq.wire.contract import build

POOL = build(FILES, globals())
