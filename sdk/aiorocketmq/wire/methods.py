"""One row for each call of the contract: its path, its message classes and which sides stream."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from google.protobuf.message import Message

from aiorocketmq.wire import messages


@dataclass(frozen=True, slots=True)
class Method:
    """One call: everything that a client or a server must know to make or serve it.

    `path` is the HTTP/2 path, `request` and `response` are classes of `aiorocketmq.wire.messages`.
    """

    name: str
    path: str
    request: type[Message]
    response: type[Message]
    client_streaming: bool
    server_streaming: bool


def _methods_of(service: str) -> Mapping[str, Method]:
    """Derive the rows from the service's descriptor."""
    descriptor = messages.POOL.FindServiceByName(service)
    return MappingProxyType(
        {
            method.name: Method(
                name=method.name,
                path=f"/{service}/{method.name}",
                request=getattr(messages, method.input_type.name),
                response=getattr(messages, method.output_type.name),
                client_streaming=method.client_streaming,
                server_streaming=method.server_streaming,
            )
            for method in descriptor.methods
        }
    )


METHODS = _methods_of("apache.rocketmq.v2.MessagingService")
"""The calls of producers and consumers, by name: `METHODS["SendMessage"]`."""

ADMIN_METHODS = _methods_of("apache.rocketmq.v2.Admin")
"""The calls of operators, by name; no Apache release up to 5.5.0 serves more than `ChangeLogLevel`."""
