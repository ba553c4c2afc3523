"""The page about real servers names the tests that there are, and leaves no lesson and no scenario out."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "real-servers.md").read_text(encoding="utf-8")
TESTS = ROOT / "sdk" / "tests"


def claims_in(path: str) -> list[str]:
    return re.findall(r"def (test_\w+)\(", (TESTS / path).read_text(encoding="utf-8"))


def table(name: str) -> list[list[str]]:
    """The cells of the lines below a table's header."""
    lines = PAGE.partition(f"<!-- table: {name} -->")[2].strip().splitlines()
    rows = [line for line in lines if line.startswith("|")]
    until = next((number for number, line in enumerate(lines) if not line.startswith("|")), len(lines))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in rows[2:until]]


def test_every_lesson_stands_on_the_page_with_its_test() -> None:
    rows = table("lessons")
    assert [int(number) for number, *_ in rows] == list(range(1, 15))
    assert [test.strip("`") for *_, test in rows] == claims_in("lessons/test_live_lessons.py")


def test_every_scenario_is_one_test_of_ours_and_one_of_apaches_client() -> None:
    names = [row[0].replace(" ", "_") for row in table("scenarios")]
    for path in ("servers/test_what_apaches_client_fails.py", "peers/test_where_apaches_client_fails.py"):
        tests = claims_in(path)
        assert len(tests) == len(names)
        assert [sum(test.startswith(f"test_{name}_") for test in tests) for name in names] == [1] * len(names)


def test_every_file_of_client_tests_stands_on_the_page() -> None:
    files = {path.name for path in (TESTS / "servers").glob("test_*.py")}
    assert files == {name for name in files if f"`{name}`" in PAGE or f"/{name}`" in PAGE}
