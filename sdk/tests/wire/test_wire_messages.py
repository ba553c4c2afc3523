"""The contract's classes and methods are complete, usable, and cost nothing but protobuf."""

import pickle
import subprocess
import sys

from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import ADMIN_METHODS, METHODS
from google.protobuf import descriptor_pool, timestamp_pb2
from google.protobuf.message import Message


def test_every_message_and_enum_of_the_contract_is_an_attribute() -> None:
    names = [
        name
        for file in ("definition.proto", "service.proto", "admin.proto")
        for kind in ("message_types_by_name", "enum_types_by_name")
        for name in getattr(pb.POOL.FindFileByName(file), kind)
    ]
    assert len(names) > 100
    assert [name for name in names if not hasattr(pb, name)] == []


def test_what_was_written_is_read_back() -> None:
    request = pb.SendMessageRequest()
    message = request.messages.add(topic=pb.Resource(name="orders"), body=b"\0\xff")
    message.user_properties["source"] = "web"
    message.system_properties.message_type = pb.MessageType.FIFO
    message.system_properties.born_timestamp.FromMilliseconds(1_700_000_000_123)
    read = pb.SendMessageRequest.FromString(request.SerializeToString())
    assert read == request
    assert read.messages[0].system_properties.born_timestamp.nanos == 123_000_000


def test_a_code_from_a_newer_server_survives_reading() -> None:
    status = pb.Status.FromString(b"\x08\xb9\xb9\x02")
    assert status.code == 40121
    assert pb.Status.FromString(status.SerializeToString()).code == 40121


def test_enums_have_names_numbers_and_a_type_of_their_own() -> None:
    assert pb.Code.Name(pb.Code.OK) == "OK"
    assert pb.Code.Value("TOPIC_NOT_FOUND") == 40402
    assert pb.OffsetOption.MAX == pb.OffsetOption.Policy.MAX == 2
    assert pb.Code.ValueType(40000) == pb.Code.BAD_REQUEST


def test_messages_can_be_pickled_and_say_where_they_come_from() -> None:
    status = pb.Status(code=pb.Code.OK, message="fine")
    assert pickle.loads(pickle.dumps(status)) == status
    assert pb.Status.__module__ == "aiorocketmq.wire.messages"


def test_the_contract_stays_out_of_the_default_descriptor_pool() -> None:
    assert pb.POOL is not descriptor_pool.Default()
    assert pb.Timestamp.DESCRIPTOR is not timestamp_pb2.Timestamp.DESCRIPTOR


def test_methods_name_path_classes_and_streams() -> None:
    assert len(METHODS) == 17
    assert METHODS["SendMessage"].path == "/apache.rocketmq.v2.MessagingService/SendMessage"
    assert METHODS["SendMessage"].request is pb.SendMessageRequest
    assert METHODS["SendMessage"].response is pb.SendMessageResponse
    kinds = {name: (m.client_streaming, m.server_streaming) for name, m in METHODS.items()}
    assert {name for name, kind in kinds.items() if kind == (False, True)} == {
        "ReceiveMessage",
        "PullMessage",
    }
    assert {name for name, kind in kinds.items() if kind[0]} == {"Telemetry"}
    assert ADMIN_METHODS["ChangeLogLevel"].path == "/apache.rocketmq.v2.Admin/ChangeLogLevel"
    assert all(issubclass(m.request, Message) for m in (*METHODS.values(), *ADMIN_METHODS.values()))


def test_importing_the_wire_loads_protobuf_and_nothing_else() -> None:
    program = (
        "import sys; before = set(sys.modules); import aiorocketmq.wire.methods;"
        "print({m.partition('.')[0] for m in set(sys.modules) - before} - sys.stdlib_module_names)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("{'google', 'aiorocketmq'}", "{'aiorocketmq', 'google'}")
