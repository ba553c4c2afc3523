"""The stub lets a type checker find what would fail at run time."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy", reason="needs mypy (dependency group `lint`)")
ROOT = Path(__file__).resolve().parents[3]

GOOD = """
from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import METHODS

request = pb.SendMessageRequest(messages=[pb.Message(topic=pb.Resource(name="t"), user_properties={"a": "b"})])
request.messages[0].system_properties.message_type = pb.MessageType.FIFO
request.messages.add().system_properties.born_timestamp.FromNanoseconds(5)
code: pb.Code.ValueType = pb.Status().code
which = pb.TelemetryCommand().WhichOneof("command")
start = pb.OffsetOption(policy=pb.OffsetOption.MAX)
parsed: pb.SendMessageRequest = pb.SendMessageRequest.FromString(b"")
method_path: str = METHODS["SendMessage"].path
"""
BAD = {
    "a misspelt field": "pb.Message(topik=pb.Resource())",
    "a number where a code belongs": "pb.Status(code=20000)",
    "a message assigned": "pb.Message().topic = pb.Resource()",
    "a misspelt presence": 'pb.Message().HasField("topik")',
    "presence of what has none": 'pb.Message().HasField("body")',
    "text where bytes belong": 'pb.Message(body="x")',
    "a foreign instant": "pb.SystemProperties(born_timestamp=timestamp_pb2.Timestamp())",
}


def test_users_of_the_contract_are_checked_strictly(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(GOOD, encoding="utf-8")
    bad = [
        "from aiorocketmq.wire import messages as pb",
        "from google.protobuf import timestamp_pb2",
        *BAD.values(),
    ]
    (tmp_path / "bad.py").write_text("\n".join(bad), encoding="utf-8")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--config-file=",
            # What our modules import may have no types, as users know.
            "--follow-imports=silent",
            "--cache-dir",
            tmp_path / "cache",
            "good.py",
            "bad.py",
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"MYPYPATH": str(ROOT / "sdk")},
    )
    lines = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert [line for line in lines if not line.startswith("bad.py:")] == []
    error_lines = {int(line.split(":")[1]) for line in lines}
    missed = [what for number, what in enumerate(BAD, start=3) if number not in error_lines]
    assert missed == []
