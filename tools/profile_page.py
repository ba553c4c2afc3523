"""The page of the fields that the profile `apache-5.5-cluster` inherits, with the cases that decide each."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType

from aiorocketmq_fake.core.values import profile

from tools.matrix_page import Run, read_runs
from tools.profile_fields import KEPT, Deciding, inherited

_FAKE, _SERVER = "fake:apache-5.5-cluster", "apache:5.5.0:cluster"
_SOURCE = re.compile(r"\(([^()]*(?:§|R\d|\d+\.\d|O\d|seen|trap|table)[^()]*)\)")
_HEAD = """# What the cluster profile inherits

Written by `python -m tools.pages` (do not edit) from what `python -m tools.profile_fields` measured on the fake:
cases that end otherwise if the field of `apache-5.5-cluster` has another value (the documented one, the opposite, a
quarter or four times the number). *Live* compares them with the recorded run of a real 5.5.0 behind a separate proxy:
they ended there as on the fake (shown), only cases for information did, or cases that allow both values noted the
answer that the fake gives (recorded), they have not been run or ended otherwise (no). For a field that no case decides
the reason is given. `revive_spread` is left out: cases note how late a real server redelivers, and have the fake
redeliver at exact times. *Source* is a [rule](rules.md), or a measurement on a server.

"""
_DAYS = "shows after days"
_HOURS = "shows after hours"
_SHORT = "shorter than what tolerances allow for"
_SETTING = "an operator's setting, which the servers of recorded runs have changed"
UNDECIDED: Mapping[str, str] = MappingProxyType(
    {
        "termination_hold": "hidden by `revive_latency` and its spread",
        "pull_queues_divided": "hidden by `client_types`: no pull consumer registers",
        "lite_scan": _SHORT,
        "session_tokens_count": "users of the suite have no session token",
        "mixed_topics": _SETTING,
        "auto_create_topics": _SETTING,
        "delay_latency": _SHORT,
        "recall_margin": _SHORT,
        "half_lifetime": _DAYS,
        "recovery_in_whole_seconds": "hidden by `checks_scan`",
        "polling_margin": _SHORT,
        "retry_first_chance": "a matter of chance",
        "polls_in_all": "needs 100,000 polls",
        "undelivered_hold": "hidden by `revive_latency` and its spread",
        "renew_ahead": _HOURS,
        "renew_steps": _HOURS,
        "renew_limit": _HOURS,
        "ordered_wake_latency": _SHORT,
        "order_record_life": _DAYS,
        "retention": _DAYS,
        "cleaning_interval": _SHORT,
        "cleaning_hour": _DAYS,
    }
)
"""Why no case decides a field."""


def measured() -> dict[str, Deciding]:
    """Return the deciding cases by field."""
    return dict(json.loads(KEPT.read_text(encoding="utf-8")))


def page(runs: Path) -> str:
    """Return the whole page."""
    kept, sources, decided = read_runs(runs), _sources(), measured()
    on_fake, on_server = kept[_FAKE], kept[_SERVER]
    rows, count = [], dict.fromkeys(("shown", "recorded", "no", "no case"), 0)
    for name in inherited():
        cases = [*decided[name]["verdict"], *decided[name]["answers"]]
        live = _live(decided[name], on_fake, on_server)
        count[live] += 1
        if (live == "no case") != (name in UNDECIDED):
            raise ValueError(f"{name}: {live}, so UNDECIDED must say why no case decides it, or not name it")
        shown = UNDECIDED.get(name) or ", ".join(f"`{case}`" for case in cases[:4]) + (
            f" and {len(cases) - 4} more" if len(cases) > 4 else ""
        )
        rows.append(f"| `{name}` | {shown} | {live} | {sources.get(name, '')} |")
    told = ", ".join(f"{live}: {number}" for live, number in count.items())
    return (
        f"{_HEAD}{len(rows)} fields. {told}.\n\n| field | decided by | live | source |\n"
        "| --- | --- | --- | --- |\n" + "\n".join(rows) + "\n"
    )


def _live(decided: Deciding, on_fake: Run, on_server: Run) -> str:
    if not any(decided.values()):
        return "no case"
    verdicts, expected = on_server["verdicts"], on_fake["verdicts"]
    equal = {
        verdicts[case]
        for case in decided["verdict"]
        if case in verdicts and verdicts[case] == expected.get(case)
    }
    if equal & {"pass", "xfail"}:
        return "shown"
    is_noted = any(
        on_server.get("notes", {}).get(case) == noted
        for case in decided["answers"]
        if (noted := on_fake.get("notes", {}).get(case))
    )
    return "recorded" if is_noted or "inconclusive" in equal else "no"


def _sources() -> dict[str, str]:
    """Return what each field's docstring cites."""
    tree = ast.parse(Path(profile.__file__).read_text(encoding="utf-8"))
    (body,) = [node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Profile"]
    found = {}
    for field, text in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            cited = _SOURCE.findall(" ".join(ast.literal_eval(text.value).split()))
            found[ast.unparse(field.target)] = _published("; ".join(cited))
    return found


def _published(cited: str) -> str:
    """Return what readers can look up of a citation: its rules, and whether a server was measured."""
    rules = list(dict.fromkeys(re.findall(r"R\d+\.\d+", cited)))
    is_measured = re.search(r"session|consumption|remoting|lessons|seen|trap|table", cited) is not None
    return ", ".join([*rules, *(["measured"] if is_measured else [])])
