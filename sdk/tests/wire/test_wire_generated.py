"""The committed descriptors and stub are what the generator makes of the `.proto` text."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
pytest.importorskip("grpc_tools", reason="the generator needs grpcio-tools (dependency group `wire`)")


def generate(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, root / "tools" / "generate_wire.py", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the generator and of all that it reads and writes."""
    for folder in ("tools", "sdk/aiorocketmq/wire", "fake_broker/aiorocketmq_fake/edge/control_wire"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    return tmp_path


def test_the_committed_files_are_up_to_date() -> None:
    done = generate(ROOT, "--check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_changed_contract_is_noticed_and_the_check_writes_nothing(checkout: Path) -> None:
    source = checkout / "sdk" / "aiorocketmq" / "wire" / "service.proto"
    stub = source.with_name("messages.pyi")
    before = stub.read_text(encoding="utf-8")
    text = source.read_text(encoding="utf-8")
    source.write_text(text.replace("string recall_handle = 5;", "bytes recall_handle = 5;"), encoding="utf-8")
    stale = "sdk/aiorocketmq/wire/_descriptors.py, sdk/aiorocketmq/wire/messages.pyi"
    done = generate(checkout, "--check")
    assert (done.returncode, done.stdout.strip()) == (
        1,
        f"generate_wire: stale: {stale}",
    )
    assert stub.read_text(encoding="utf-8") == before
    assert generate(checkout).returncode == 0
    assert generate(checkout, "--check").returncode == 0


def test_a_broken_contract_is_refused(checkout: Path) -> None:
    source = checkout / "sdk" / "aiorocketmq" / "wire" / "service.proto"
    source.write_text(source.read_text(encoding="utf-8") + "message Half {", encoding="utf-8")
    done = generate(checkout, "--check")
    assert done.returncode == 1
    assert "refused" in done.stderr
