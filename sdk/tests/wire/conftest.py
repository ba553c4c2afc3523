"""The contract of Apache's published Python client, as facts to compare with ours."""

import base64
import json
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from aiorocketmq.wire._descriptors import FILES
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

DUMP = """
import base64, json
from rocketmq.grpc_protocol import admin_pb2, definition_pb2, service_pb2
files = [module.DESCRIPTOR.serialized_pb for module in (definition_pb2, service_pb2, admin_pb2)]
print(json.dumps([base64.b64encode(file).decode() for file in files]))
"""


def facts(files: Iterable[FileDescriptorProto]) -> dict[str, str]:
    """Flatten descriptors: one row for everything that two sides must agree on."""
    rows: dict[str, str] = {}
    for file in files:
        if file.package != "apache.rocketmq.v2":
            continue
        for enum in file.enum_type:
            rows.update(enum_facts(enum, ""))
        for message in file.message_type:
            rows.update(message_facts(message, ""))
        for service in file.service:
            for method in service.method:
                arrow = f"{'stream ' * method.client_streaming}{method.input_type}"
                back = f"{'stream ' * method.server_streaming}{method.output_type}"
                rows[f"rpc {service.name}.{method.name}"] = f"{arrow} -> {back}"
    return rows


def enum_facts(enum: EnumDescriptorProto, outer: str) -> Iterator[tuple[str, str]]:
    for value in enum.value:
        yield f"enum {outer}{enum.name}.{value.name}", str(value.number)


def message_facts(message: DescriptorProto, outer: str) -> Iterator[tuple[str, str]]:
    yield f"message {outer}{message.name}", "map entry" if message.options.map_entry else "message"
    inner = f"{outer}{message.name}."
    for enum in message.enum_type:
        yield from enum_facts(enum, inner)
    for nested in message.nested_type:
        yield from message_facts(nested, inner)
    for field in message.field:
        oneof = message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else "-"
        yield (
            f"field {inner}{field.name}",
            f"{field.number} {FieldDescriptorProto.Label.Name(field.label)} "
            f"{FieldDescriptorProto.Type.Name(field.type)} {field.type_name or '-'} oneof={oneof}"
            f"{' optional' if field.proto3_optional else ''}",
        )


@pytest.fixture
def our_facts() -> dict[str, str]:
    """Our contract, row by row."""
    return facts(FileDescriptorProto.FromString(data) for data in FILES.values())


@pytest.fixture(scope="session")
def apache_facts(apache_python: Path) -> dict[str, str]:
    """The contract inside Apache's package, row by row, read in a process of its own."""
    done = subprocess.run([apache_python, "-c", DUMP], capture_output=True, text=True, check=True)
    return facts(FileDescriptorProto.FromString(base64.b64decode(data)) for data in json.loads(done.stdout))
