"""One class for each message and enum of the contract: `messages.Code`, `messages.SendMessageRequest`, …

The classes live in a descriptor pool of their own: other packages that carry the same contract, Apache's
Python client among them, can be imported into the same process. The price: `Timestamp` and `Duration` are
this module's too, so set their `seconds` and `nanos` (or call `FromDatetime`, `FromNanoseconds` …) instead
of copying a value of `google.protobuf.timestamp_pb2` into them.

What is here, and its types, stands in `messages.pyi` (generated; `nox -s wire`).
"""

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.internal import enum_type_wrapper

from aiorocketmq.wire._descriptors import FILES


def _build() -> descriptor_pool.DescriptorPool:
    """Put a class for every message and a wrapper for every enum of the contract into this module."""
    pool = descriptor_pool.DescriptorPool()
    for name, serialized in FILES.items():
        pool.AddSerializedFile(serialized)
        file = pool.FindFileByName(name)
        for message in file.message_types_by_name.values():
            built = message_factory.GetMessageClass(message)
            built.__module__ = __name__
            globals()[message.name] = built
        for enum in file.enum_types_by_name.values():
            globals()[enum.name] = enum_type_wrapper.EnumTypeWrapper(enum)
    return pool


POOL = _build()
