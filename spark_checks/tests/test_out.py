"""The folder of results: replaced as a whole, and only what an audit wrote; links are not followed."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from aiorocketmq_audit.errors import UsageError
from aiorocketmq_audit.recording.out import MARKER, claim_remote, out_folder
from pyspark.sql import SparkSession


def written(folder: Path, text: str = "1", *names: str) -> None:
    with out_folder(folder) as out:
        for name in names or ("report.html", "violations/part-0.parquet", "violations/_SUCCESS"):
            file = out.path_for(name.partition("/")[0]).joinpath(*name.split("/")[1:])
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)


def content(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in files if path.name != MARKER}


def test_results_are_replaced_by_those_of_the_next_audit(tmp_path: Path) -> None:
    out = tmp_path / "a" / "out"
    written(out, "1", "report.html", "plots/one.svg", "violations/part-0.parquet")
    (out / "notes.txt").write_text("mine")
    written(out, "22", "report.html", "violations/part-1.parquet")
    assert content(out) == {"notes.txt": "mine", "report.html": "22", "violations/part-1.parquet": "22"}
    assert sorted(path.name for path in out.iterdir()) == [MARKER, "notes.txt", "report.html", "violations"]


def test_an_audit_that_fails_leaves_the_former_results(tmp_path: Path) -> None:
    written(tmp_path)
    before = content(tmp_path)

    def fail() -> None:
        with out_folder(tmp_path) as out:
            out.path_for("report.html").write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert content(tmp_path) == before
    written(tmp_path, "22")


@pytest.mark.parametrize("name", ["report.html", "summary.json", "plots/mine.svg", "violations/mine.parquet"])
def test_what_no_audit_wrote_is_refused_and_stays(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(UsageError, match=re.escape(f"{tmp_path / name} was not written by an audit")):
        written(tmp_path)
    assert content(tmp_path) == {name: "mine"}


@pytest.mark.parametrize("name", ["violations/mine.txt", "report.html"])
def test_what_was_put_among_results_later_is_refused_and_stays(name: str, tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / name).write_text("edited by hand")
    with pytest.raises(UsageError, match="was not written by an audit"):
        written(tmp_path)
    assert content(tmp_path)[name] == "edited by hand"


@pytest.mark.parametrize("name", ["report.html", "summary.json", "plots", "violations", MARKER])
def test_links_are_refused_and_not_followed(name: str, tmp_path: Path) -> None:
    out, precious = tmp_path / "out", tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("mine")
    out.mkdir()
    is_folder = name in ("plots", "violations")
    (out / name).symlink_to(precious if is_folder else precious / "file")
    with pytest.raises(UsageError, match=re.escape(f"{out / name} is a link")):
        written(out)
    assert content(precious) == {"file": "mine"}
    assert (out / name).is_symlink()


def test_a_link_that_appears_while_the_audit_runs_is_not_followed(tmp_path: Path) -> None:
    out, precious = tmp_path / "out", tmp_path / "precious"
    precious.write_text("mine")

    def audit() -> None:
        with out_folder(out) as results:
            results.path_for("report.html").write_text("page")
            (out / "report.html").symlink_to(precious)

    with pytest.raises(UsageError, match="is a link"):
        audit()
    assert precious.read_text() == "mine"


def test_a_swap_that_fails_in_the_middle_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path)
    before, rename = content(tmp_path), os.rename

    def fail(source: Path, target: Path) -> None:
        if target == tmp_path / "violations" and "_former" not in str(source):
            raise OSError(5, "Input/output error")
        rename(source, target)

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(OSError, match="Input/output"):
        written(tmp_path, "22")
    monkeypatch.undo()
    assert content(tmp_path) == before
    written(tmp_path, "333")


@pytest.mark.parametrize("below", ["file", "file/below"])
def test_a_folder_that_cannot_be_written_to_is_refused(below: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be written to"), out_folder(tmp_path / below):
        pytest.fail("it was written to")


@pytest.mark.spark
def test_a_remote_folder_is_overwritten_only_if_it_is_new_or_marked(
    tmp_path: Path, spark: SparkSession
) -> None:
    """A folder of this machine stands for a remote one."""
    url = f"file://{tmp_path}/results"
    for _ in range(2):
        claim_remote(spark, url)
        spark.range(1).write.mode("overwrite").parquet(f"{url}/violations")
    (tmp_path / "foreign").mkdir()
    with pytest.raises(UsageError, match="exists, and was not created by an audit"):
        claim_remote(spark, f"file://{tmp_path}/foreign")
    with pytest.raises(UsageError, match="cannot be written to"):
        claim_remote(spark, "nothing://bucket/results")
