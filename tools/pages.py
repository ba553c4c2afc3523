"""Writes the pages of the documentation that are made from tables, cases and recorded runs.

`python -m tools.pages` writes all of them; `python -m tools.pages RESULT.json...` first keeps the runs of reports that
`aiorocketmq conformance run --report DIR` left; with `--again` before it, the cases of a report take the places of the
same cases in the run that is kept, which says so.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from aiorocketmq_conformance.case import load

from tools import matrix_page, profile_page, rules_page, state_pages, support_page
from tools.mutation import page as mutation_page

REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference"
RUNS = REFERENCE / "runs"
RULES = REFERENCE / "rules.toml"
REASONS = RUNS / "differences.toml"


def pages() -> dict[Path, str]:
    """Every generated page and picture with its text."""
    return {
        REFERENCE / "rules.md": rules_page.page(RULES, load()),
        REFERENCE / "matrix.md": matrix_page.page(matrix_page.read_runs(RUNS), matrix_page.reasons(REASONS)),
        REFERENCE / "profile-fields.md": profile_page.page(RUNS),
        REFERENCE / "support.md": support_page.page(matrix_page.read_runs(RUNS)),
        REFERENCE / "states.md": state_pages.page(),
        REFERENCE / "mutation.md": mutation_page.page(
            REFERENCE / "mutation.json", REFERENCE / "mutation.toml"
        ),
        **{REFERENCE / name: drawing for name, drawing in state_pages.drawings().items()},
    }


def keep(results: Path, *, again: bool = False) -> None:
    """Keep the runs of one `result.json`, each in a file named after its target; `again` replaces single cases only."""
    for run in json.loads(results.read_text(encoding="utf-8"))["runs"]:
        file = RUNS / f"{run['target'].replace(':', '-')}.json"
        kept = matrix_page.compact(run)
        if again:
            kept = matrix_page.replaced(json.loads(file.read_text(encoding="utf-8")), kept)
        text = json.dumps(kept, indent=1, ensure_ascii=False, sort_keys=True)
        file.write_text(text + "\n", encoding="utf-8")


def main() -> int:
    """Keep what is given, then write all pages."""
    parser = argparse.ArgumentParser(prog="python -m tools.pages", description=__doc__)
    parser.add_argument("results", nargs="*", type=Path, metavar="RESULT.json")
    parser.add_argument("--again", action="store_true", help="replace the cases of these reports only")
    given = parser.parse_args()
    for results in given.results:
        if not results.is_file():
            parser.error(f"{results} is no file: give the result.json that `conformance run --report` wrote.")
        keep(results, again=given.again)
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(REFERENCE.parents[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
