"""Finding files: nothing is taken for a recording that is none, and nothing that is cut passes for whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiorocketmq_audit.errors import NotARecording, WrongUse
from aiorocketmq_audit.recording.files import EMPTY, find

WHOLE = b"PAR1" + bytes(20) + b"PAR1"


def test_a_path_that_does_not_exist_is_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match="does not exist"):
        find((str(tmp_path / "nothing"),))


def test_a_folder_without_files_is_no_recording(tmp_path: Path) -> None:
    with pytest.raises(NotARecording, match="no Parquet file"):
        find((str(tmp_path),))


def test_a_file_of_another_kind_is_no_recording(tmp_path: Path) -> None:
    (tmp_path / "table.parquet").write_text("id,name\n1,a\n")
    with pytest.raises(NotARecording, match="not a Parquet file"):
        find((str(tmp_path),))


def test_files_in_sub_folders_belong_to_the_recording(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.parquet").write_bytes(WHOLE)
    (tmp_path / "two.parquet").write_bytes(WHOLE)
    assert len(find((str(tmp_path),)).readable) == 2


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(40)], ids=["empty", "head", "no footer"])
def test_a_file_without_its_end_is_unfinished(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "cut.parquet").write_bytes(content)
    (tmp_path / "whole.parquet").write_bytes(WHOLE)
    found = find((str(tmp_path),))
    assert [Path(path).name for path in found.readable] == ["whole.parquet"]
    assert [Path(path).name for path in found.unfinished] == ["cut.parquet"]


def test_a_file_that_is_still_open_is_unfinished_whatever_it_holds(tmp_path: Path) -> None:
    (tmp_path / "r-00000.parquet.open").write_bytes(WHOLE)
    assert find((str(tmp_path),)).unfinished


def test_an_earlier_audits_violations_are_not_taken_for_events(tmp_path: Path) -> None:
    (tmp_path / "violations").mkdir()
    (tmp_path / "violations" / "part-0.parquet").write_bytes(WHOLE)
    (tmp_path / "r.parquet").write_bytes(WHOLE)
    assert len(find((str(tmp_path),)).readable) == 1


def test_a_path_elsewhere_is_left_to_spark() -> None:
    assert find(("s3a://bucket/runs",)).readable == ("s3a://bucket/runs",)


def test_many_files_with_a_handful_of_rows_are_a_small_recording(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.parquet").write_bytes(WHOLE)
    assert find((str(tmp_path),)).size == 3
    (tmp_path / "more.parquet").write_bytes(b"PAR1" + bytes(EMPTY) + b"PAR1")
    assert find((str(tmp_path),)).size == 3 + 8
