"""Classes and call tables made from serialized descriptors, in a descriptor pool of their own."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.internal import enum_type_wrapper
from google.protobuf.message import Message


@dataclass(frozen=True, slots=True)
class Method:
    """One call: everything that a client or a server must know to make or serve it.

    `path` is the HTTP/2 path, `request` and `response` are message classes.
    """

    name: str
    path: str
    request: type[Message]
    response: type[Message]
    client_streaming: bool
    server_streaming: bool


def build(files: Mapping[str, bytes], namespace: dict[str, object]) -> descriptor_pool.DescriptorPool:
    """Put a class for every message and a wrapper for every enum of `files` into a module's `namespace`."""
    pool = descriptor_pool.DescriptorPool()
    for name, serialized in files.items():
        pool.AddSerializedFile(serialized)
        file = pool.FindFileByName(name)
        for message in file.message_types_by_name.values():
            built = message_factory.GetMessageClass(message)
            built.__module__ = str(namespace["__name__"])
            namespace[message.name] = built
        for enum in file.enum_types_by_name.values():
            namespace[enum.name] = enum_type_wrapper.EnumTypeWrapper(enum)
    return pool


def methods_of(pool: descriptor_pool.DescriptorPool, service: str) -> Mapping[str, Method]:
    """Derive the calls of a service, by name, from its descriptor."""
    return MappingProxyType(
        {
            method.name: Method(
                name=method.name,
                path=f"/{service}/{method.name}",
                request=message_factory.GetMessageClass(method.input_type),
                response=message_factory.GetMessageClass(method.output_type),
                client_streaming=method.client_streaming,
                server_streaming=method.server_streaming,
            )
            for method in pool.FindServiceByName(service).methods
        }
    )
