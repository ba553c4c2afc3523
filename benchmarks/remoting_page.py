"""Page of the speed over the remoting protocol, as `benchmarks.remoting` and `benchmarks.pull` measured it."""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, TypedDict

from benchmarks.running import ROOT, computer

OVER_REMOTING = "aiorocketmq over remoting"
REFERENCE = ROOT / "docs" / "reference"

HEAD = """\
# Speed over remoting

Written by `python -m benchmarks.remoting --record` and `python -m benchmarks.pull --record` (do not edit). One real
Apache server for all rows of a section, on the same machine; a client is a process of its own, the clients take
turns, cells are medians over the rounds. Machines differ: compare within a section.

What is slower than we wanted, and why it stays so:

- A pulled message costs more CPU than with Java's client. Half of it is for the fields that an application reads
  (properties, id); they are read when the first one is wanted. Decoding the record alone takes an eighth. Less would
  need a second kind of message, or a second reader in another language.
- A send costs more CPU than with Apache's Go client, over many small steps (retry budget, slots, events, the JSON
  header) of which none stands out.
"""


class Row(TypedDict):
    """One line of a section."""

    work: str
    client: str
    rate: float
    cpu_us: float


def publish(section: str, options: argparse.Namespace, rows: Sequence[Row]) -> None:
    """Print `rows`, and with `--record` put them into the published page."""
    measured = {
        "version": options.version,
        "rounds": options.rounds,
        "date": date.today().isoformat(),
        "machine": computer(),
        "python": platform.python_version(),
        "rows": list(rows),
    }
    print("\n".join(_table(rows)), flush=True)
    if options.record:
        path = REFERENCE / "remoting-speed.json"
        sections = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        sections[section] = measured
        path.write_text(json.dumps(sections, indent=1) + "\n", encoding="utf-8")
        path.with_suffix(".md").write_text(page(sections), encoding="utf-8")


def page(sections: Mapping[str, Any]) -> str:
    """Return the whole page."""
    lines = [HEAD]
    for title, section in sections.items():
        lines += [
            f"## {title.capitalize()}",
            "",
            f"Apache RocketMQ {section['version']}, {section['rounds']} rounds, {section['date']}, "
            f"{section['machine']}, Python {section['python']}.",
            "",
            *_table(section["rows"]),
            "",
        ]
    return "\n".join(lines)


def _table(rows: Sequence[Row]) -> list[str]:
    ours = {row["work"]: row for row in rows if row["client"] == OVER_REMOTING}
    lines = [
        "| work | client | messages/s | CPU µs/message | ours: rate / its | ours: CPU / its |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for row in rows:
        mine = ours[row["work"]]
        lines.append(
            f"| {row['work']} | {row['client']} | {row['rate']:,.0f} | {row['cpu_us']:.1f} | "
            f"{mine['rate'] / row['rate']:.2f} | {mine['cpu_us'] / row['cpu_us']:.2f} |"
        )
    return lines
