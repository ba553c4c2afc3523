"""Generate descriptors and type stubs of the wire contracts from their `.proto` text.

    python tools/generate_wire.py           write them
    python tools/generate_wire.py --check   write nothing; exit 1 and name the files if what is there differs

Needs grpcio-tools for its compiler only. What is written does not depend on the compiler's version: options,
JSON names and source positions are dropped, and the stub is ours. Nothing here is imported at run time.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from grpc_tools import protoc  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parent.parent
CONTRACTS = {
    ROOT / "sdk" / "aiorocketmq" / "wire": ("definition.proto", "service.proto", "admin.proto"),
    ROOT / "fake_broker" / "aiorocketmq_fake" / "edge" / "control_wire": ("control.proto",),
}
"""Folders with the sources in them, dependencies first; `_descriptors.py` and `messages.pyi` are written beside."""

GENERATED_BY = "Generated from the .proto files beside it: `nox -s wire -- --write`."
STUB_IMPORTS = """\
from collections.abc import Iterable, Mapping
from typing import Literal, NewType

from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.internal.containers import (
    MessageMap,
    RepeatedCompositeFieldContainer,
    RepeatedScalarFieldContainer,
    ScalarMap,
)
from google.protobuf.internal.enum_type_wrapper import _EnumTypeWrapper
from google.protobuf.internal.well_known_types import Duration as _Duration
from google.protobuf.internal.well_known_types import Timestamp as _Timestamp
from google.protobuf.message import Message as _Message

POOL: DescriptorPool
"""

_F = FieldDescriptorProto
SCALARS = {
    _F.TYPE_STRING: "str",
    _F.TYPE_BYTES: "bytes",
    _F.TYPE_BOOL: "bool",
    _F.TYPE_FLOAT: "float",
    _F.TYPE_DOUBLE: "float",
    _F.TYPE_INT32: "int",
    _F.TYPE_INT64: "int",
}
WELL_KNOWN_BASES = {"Timestamp": "_Message, _Timestamp", "Duration": "_Message, _Duration"}


def compiled(folder: Path, sources: tuple[str, ...]) -> list[FileDescriptorProto]:
    """Compile sources; return all descriptors, dependencies first, without frills."""
    include = Path(protoc.__file__).parent / "_proto"
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "contract.binpb"
        command = [
            "protoc",
            f"-I{folder}",
            f"-I{include}",
            "--include_imports",
            f"--descriptor_set_out={out}",
        ]
        if protoc.main([*command, *sources]):
            raise SystemExit("generate_wire: the compiler refused the .proto text, see above.")
        files = list(FileDescriptorSet.FromString(out.read_bytes()).file)
    for file in files:
        file.ClearField("options")
        file.ClearField("source_code_info")
        for message in file.message_type:
            drop_json_names(message)
    by_name = {file.name: file for file in files}
    imported = sorted(name for name in by_name if name not in sources)
    return [by_name[name] for name in (*imported, *sources)]


def drop_json_names(message: DescriptorProto) -> None:
    """Drop what the compiler adds and every reader derives by itself."""
    for field in message.field:
        field.ClearField("json_name")
    for nested in message.nested_type:
        drop_json_names(nested)


def descriptors_module(files: list[FileDescriptorProto]) -> str:
    """Render the module that carries the serialized descriptors."""
    lines = [
        f'"""The compiled contract, dependencies first.\n\n{GENERATED_BY}\n"""',
        "",
        "FILES: dict[str, bytes] = {",
    ]
    for file in files:
        data = file.SerializeToString(deterministic=True)
        lines.append(f'    "{file.name}": bytes.fromhex(')
        lines.extend(f'        "{data[at : at + 48].hex()}"' for at in range(0, len(data), 48))
        lines.append("    ),")
    return "\n".join([*lines, "}", ""])


def stub(files: list[FileDescriptorProto]) -> str:
    """Render the type stub of `aiorocketmq.wire.messages`."""
    lines = [f'"""Types of the contract\'s messages and enums.\n\n{GENERATED_BY}\n"""', "", STUB_IMPORTS]
    for file in files:
        for enum in file.enum_type:
            lines += [*stub_enum_kind(enum), stub_enum(enum), ""]
        for message in file.message_type:
            for enum in message.enum_type:
                lines += stub_enum_kind(enum, f"{message.name}_")
            lines += [*stub_message(message), ""]
    return "\n".join(lines)


def stub_enum_kind(enum: EnumDescriptorProto, prefix: str = "") -> Iterator[str]:
    """Render what stands behind an enum: `Code.OK` has type `Code.ValueType`, an int of its own kind."""
    kind = f"_{prefix}{enum.name}"
    yield f"class {kind}:"
    yield '    ValueType = NewType("ValueType", int)'
    yield ""
    yield f"class {kind}Wrapper(_EnumTypeWrapper[{kind}.ValueType], type):"
    yield from (f"    {value.name}: {kind}.ValueType" for value in enum.value)
    yield ""


def stub_enum(enum: EnumDescriptorProto, prefix: str = "") -> str:
    """Render the public name of an enum."""
    kind = f"_{prefix}{enum.name}"
    return f"class {enum.name}({kind}, metaclass={kind}Wrapper): ..."


def stub_message(message: DescriptorProto) -> Iterator[str]:
    """Render one message class: its fields, constructor, presence and oneofs."""
    bases = WELL_KNOWN_BASES.get(message.name, "_Message")
    yield f"class {message.name}({bases}):"
    maps = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
    for enum in message.enum_type:
        yield f"    {stub_enum(enum, f'{message.name}_')}"
        yield from (f"    {value.name}: {enum.name}.ValueType" for value in enum.value)
    for nested in message.nested_type:
        if nested.name not in maps:
            yield from indented(stub_message(nested))
            yield ""
    arguments = []
    for field in message.field:
        reads, takes, settable = field_types(field, maps)
        if settable:
            yield f"    {field.name}: {reads}"
        else:
            yield "    @property"
            yield f"    def {field.name}(self) -> {reads}: ..."
        arguments.append(f"{field.name}: {takes} = ...")
    if arguments:
        yield "    def __init__("
        yield "        self,"
        yield "        *,"
        yield from (f"        {argument}," for argument in arguments)
        yield "    ) -> None: ..."
    else:
        yield "    def __init__(self) -> None: ..."
    yield from stub_presence(message)


def indented(lines: Iterator[str]) -> Iterator[str]:
    """Move lines four columns to the right."""
    return (f"    {line}" if line else line for line in lines)


def stub_presence(message: DescriptorProto) -> Iterator[str]:
    """Render `HasField`, `ClearField` and `WhichOneof` so that a misspelt name is a type error."""
    optional = [f.name for f in message.field if has_presence(f)]
    oneofs = [o.name for i, o in enumerate(message.oneof_decl) if not is_synthetic(message, i)]
    if optional or oneofs:
        yield f"    def HasField(self, field_name: {literal(optional + oneofs)}) -> bool: ..."
    if message.field:
        clearable = literal([f.name for f in message.field] + oneofs)
        yield f"    def ClearField(self, field_name: {clearable}) -> None: ..."
    for index, oneof in enumerate(message.oneof_decl):
        if oneof.name in oneofs:
            members = [f.name for f in message.field if f.HasField("oneof_index") and f.oneof_index == index]
            group = literal([oneof.name])
            yield f"    def WhichOneof(self, oneof_group: {group}) -> {literal(members)} | None: ..."


def literal(names: list[str]) -> str:
    """Render a Literal of field names."""
    return "Literal[" + ", ".join(f'"{name}"' for name in names) + "]"


def has_presence(field: FieldDescriptorProto) -> bool:
    """Tell whether an unset field can be told from a zero one."""
    return field.label != _F.LABEL_REPEATED and (
        field.type == _F.TYPE_MESSAGE or field.HasField("oneof_index")
    )


def is_synthetic(message: DescriptorProto, index: int) -> bool:
    """Tell whether a oneof only stands for one field marked `optional`."""
    return any(f.proto3_optional and f.oneof_index == index for f in message.field)


def field_types(field: FieldDescriptorProto, maps: dict[str, DescriptorProto]) -> tuple[str, str, bool]:
    """Return what a field reads as, what the constructor takes for it, and whether it is assignable."""
    entry = maps.get(field.type_name.rpartition(".")[2]) if field.type == _F.TYPE_MESSAGE else None
    if entry is not None:
        key, value = (scalar_type(part) for part in entry.field)
        kind = "MessageMap" if entry.field[1].type == _F.TYPE_MESSAGE else "ScalarMap"
        return f"{kind}[{key}, {value}]", f"Mapping[{key}, {value}] | None", False
    name = scalar_type(field)
    if field.label == _F.LABEL_REPEATED:
        kind = (
            "RepeatedCompositeFieldContainer"
            if field.type == _F.TYPE_MESSAGE
            else "RepeatedScalarFieldContainer"
        )
        return f"{kind}[{name}]", f"Iterable[{name}] | None", False
    return name, f"{name} | None", field.type != _F.TYPE_MESSAGE


def scalar_type(field: FieldDescriptorProto) -> str:
    """Name the Python type of one value of a field."""
    if field.type in (_F.TYPE_MESSAGE, _F.TYPE_ENUM):
        # Packages are written in lower case and types in upper: what is left is the name, outer types included.
        name = ".".join(part for part in field.type_name.split(".") if part[:1].isupper())
        return f"{name}.ValueType" if field.type == _F.TYPE_ENUM else name
    return SCALARS[field.type]


def main() -> int:
    """Write the generated files, or compare them with `--check`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing, fail on a difference")
    parser.add_argument("--write", action="store_true", help="write the files (the default)")
    check = parser.parse_args().check
    stale = []
    for folder, sources in CONTRACTS.items():
        files = compiled(folder, sources)
        for name, text in (("_descriptors.py", descriptors_module(files)), ("messages.pyi", stub(files))):
            path = folder / name
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                stale.append(path.relative_to(ROOT).as_posix())
                if not check:
                    path.write_text(text, encoding="utf-8", newline="\n")
    said = f"{'stale' if check else 'written'}: {', '.join(stale)}" if stale else "up to date"
    print(f"generate_wire: {said}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
