"""Finding files: nothing is taken for a recording that is none, and nothing that is cut passes for whole."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiorocketmq_audit.errors import InvalidRecordingError, UsageError
from aiorocketmq_audit.recording.files import EMPTY, find
from aiorocketmq_audit.recording.schema import REQUIRED

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def whole(file: Path, size: int = 0) -> None:
    """Write a file of no rows, with `size` bytes more."""
    file.parent.mkdir(exist_ok=True)
    types = {
        name: pa.int64() if name in ("seq", "t_wall_us", "t_mono_ns") else pa.string() for name in REQUIRED
    }
    schema = pa.schema(types.items()).with_metadata({"more": "x" * size})
    parquet.write_table(schema.empty_table(), file)


def test_a_path_that_does_not_exist_is_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        find((str(tmp_path / "nothing"),))


def test_a_folder_without_files_is_no_recording(tmp_path: Path) -> None:
    with pytest.raises(InvalidRecordingError, match="no Parquet file"):
        find((str(tmp_path),))


def test_a_file_of_another_kind_is_no_recording(tmp_path: Path) -> None:
    (tmp_path / "table.parquet").write_text("id,name\n1,a\n")
    with pytest.raises(InvalidRecordingError, match="not a Parquet file"):
        find((str(tmp_path),))


def test_files_in_sub_folders_belong_to_the_recording(tmp_path: Path) -> None:
    whole(tmp_path / "a" / "one.parquet")
    whole(tmp_path / "two.parquet")
    assert len(find((str(tmp_path),)).readable) == 2


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(40)], ids=["empty", "head", "no footer"])
def test_a_file_without_its_end_is_unfinished(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "cut.parquet").write_bytes(content)
    whole(tmp_path / "whole.parquet")
    files = find((str(tmp_path),))
    assert [Path(path).name for path in files.readable] == ["whole.parquet"]
    assert [Path(path).name for path in files.unfinished] == ["cut.parquet"]


def test_a_file_that_is_still_open_is_unfinished_whatever_it_holds(tmp_path: Path) -> None:
    whole(tmp_path / "r-00000.parquet.open")
    assert find((str(tmp_path),)).unfinished


def test_an_earlier_audits_violations_are_not_taken_for_events(tmp_path: Path) -> None:
    whole(tmp_path / "violations" / "part-0.parquet")
    whole(tmp_path / "r.parquet")
    assert len(find((str(tmp_path),)).readable) == 1


def test_a_path_elsewhere_is_left_to_spark() -> None:
    assert find(("s3a://bucket/runs",)).readable == ("s3a://bucket/runs",)


def test_many_files_with_a_handful_of_rows_are_a_small_recording(tmp_path: Path) -> None:
    for number in range(3):
        whole(tmp_path / f"{number}.parquet")
    assert find((str(tmp_path),)).size == 3
    whole(tmp_path / "more.parquet", size=EMPTY)
    assert find((str(tmp_path),)).size == 3 + (tmp_path / "more.parquet").stat().st_size - EMPTY


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A folder of a user for whom permissions count, which root's do not."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder, root = Path(name), os.geteuid() == 0
        if root:
            os.chown(folder, 65534, 65534)
            os.seteuid(65534)
        try:
            yield folder
        finally:
            if root:
                os.seteuid(0)


def test_a_folder_that_cannot_be_read_is_refused(unprivileged: Path) -> None:
    """It may hold half of the recording."""
    whole(unprivileged / "r.parquet")
    whole(unprivileged / "a" / "r.parquet")
    (unprivileged / "a").chmod(0)
    try:
        with pytest.raises(InvalidRecordingError, match=r"/a cannot be read \(Permission denied\)"):
            find((str(unprivileged),))
    finally:
        (unprivileged / "a").chmod(0o700)


def test_a_file_that_is_a_link_to_nothing_is_refused(tmp_path: Path) -> None:
    whole(tmp_path / "r.parquet")
    (tmp_path / "gone.parquet").symlink_to(tmp_path / "nothing")
    with pytest.raises(InvalidRecordingError, match=r"gone\.parquet cannot be read"):
        find((str(tmp_path),))


def test_links_to_folders_are_followed_once(tmp_path: Path) -> None:
    whole(tmp_path / "elsewhere" / "two.parquet")
    whole(tmp_path / "runs" / "one.parquet")
    (tmp_path / "runs" / "more").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "back").symlink_to(tmp_path / "runs")
    readable = find((str(tmp_path / "runs"),)).readable
    assert readable == (f"{tmp_path}/runs/more/two.parquet", f"{tmp_path}/runs/one.parquet")
