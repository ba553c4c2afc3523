"""Verdicts on a terminal."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from aiorocketmq_audit.run import Audit
from aiorocketmq_audit.verdicts import Verdict

_STYLE = {Verdict.VALID: "bold green", Verdict.INVALID: "bold red", Verdict.UNKNOWN: "bold yellow"}


_SENTENCES = {
    (
        "ordering",
        "INV-ORD",
    ): "{message} was handed to group {group} before {other}, ahead of it, was settled{how}",
    (
        "ordering",
        "INV-ORD-FIRST",
    ): "{message} was first handed to group {group} after {other}, which is behind it{how}",
    (
        "ordering",
        "INV-ORD-HANDLE",
    ): "group {group} began to handle {message} while {other} was being handled{how}",
    (
        "double delivery",
        "INV-EXCL",
    ): "{message} was handed to group {group} again before the first lease ended{how}",
    ("double delivery", "INV-ACKED"): "{message} was handed to group {group} again after its ack{how}",
    ("retry timing", "INV-EARLY"): "{message} came back to group {group} sooner than asked for{how}",
    (
        "retry timing",
        "INV-LATE",
    ): "{message} came back to group {group} later than it was due, or not at all,{how} "
    "while it was asked for",
    ("attempts", "INV-ATTEMPT"): "{message} came to group {group} as attempt {attempt} after attempt {was}",
    (
        "attempts",
        "INV-LIMIT",
    ): "{message} came to group {group} as attempt {attempt}, which the group does not allow",
    (
        "dead letters",
        "INV-DLQ",
    ): "{message} became a dead letter of group {group} twice, too soon, or came after it{how}",
    ("delay", "INV-EARLY"): "{message} was handed to group {group} before the time it was sent for{how}",
    (
        "origin",
        "INV-CONTENT",
    ): "{message} came to group {group} with another body, or other properties, than it was sent with",
    ("origin", "INV-FAILED"): "{message} came to group {group} although its send was refused",
    (
        "loss",
        "INV-LOSS-MID",
    ): "{other} was stored and passed over: group {group} got {message}, which is behind it",
    ("filters", "INV-FILTER"): "{message} came to group {group}, which asked for other tags",
    (
        "filters",
        "INV-ISOLATE",
    ): "{message} came to group {group} in the answer to a poll of another topic or group",
    ("origin", "INV-ORIGIN"): "{message} came to group {group} and nobody had sent it",
    ("loss", "INV-LOSS"): "{message} was never settled for group {group}, which was drained",
    (
        "dead letters",
        "INV-DLQ-LIVE",
    ): "{message} used up its attempts in group {group} and is no dead letter",
    ("transactions", "INV-TX"): "{message} came to group {group} without a commit before it",
    ("transactions", "INV-TX-CHECK"): "a producer was asked about {message} though it was decided{how}",
    (
        "recall",
        "INV-RECALL",
    ): "{message} came to group {group} although it was taken back{how} before its time",
    ("queues", "INV-ASSIGN"): "two consumers of group {group} owned queue {queue}, beyond a rebalance,{how}",
    ("queues", "INV-PULL-ORD"): "{message} came to group {group} from queue {queue} after {other}, behind it",
    ("offsets", "INV-OFFSET"): "{message} has the place of {other}: queue {queue}, offset {offset}",
    (
        "offsets",
        "INV-OFFSET-ORD",
    ): "{message} was sent after {other} and has no higher offset in queue {queue}",
    ("commits", "INV-COMMIT"): "group {group} wrote a progress for queue {queue} that fell, or was ahead",
    ("fairness", "INV-FAIR"): "queue {queue} stood still for group {group} before {message} came{how}",
    (
        "handles",
        "INV-HANDLE",
    ): "{message} came to group {group} with a handle that had been given out for {other}",
}
"""By check and invariant."""


def show(audit: Audit, folder: Path | None, console: Console | None = None) -> None:
    """Print one line per check, the worst findings, and where the page is."""
    console = console or Console(highlight=False)
    table = Table(box=None, pad_edge=False)
    for heading in ("check", "verdict", "judged", "broken", "possible", "excused"):
        table.add_column(
            heading, justify="right" if heading in ("judged", "broken", "possible", "excused") else "left"
        )
    for result in audit.checks:
        tally = result.tally
        table.add_row(
            result.name,
            f"[{_STYLE[result.verdict]}]{result.verdict.value}[/]",
            *(
                str(number)
                for number in (tally.judged, tally.broken, tally.possible, sum(tally.exempted.values()))
            ),
        )
    console.print(table)
    for result in audit.checks:
        if result.verdict is not Verdict.VALID:
            console.print(f"  {result.name}: {escape(' '.join(result.reasons))}", soft_wrap=True)
        for sample in audit.samples.get(result.name, ())[:3]:
            console.print(f"  {result.name}: {escape(sentence(sample))}", soft_wrap=True)
    for line in conserved(audit):
        console.print(line)
    events = f"{audit.gates.events:,} events by {len(audit.gates.recorders)} recorder(s)"
    console.print(f"[{_STYLE[audit.verdict]}]{audit.verdict.value}[/]: {events}")
    if folder is not None:
        console.print(f"report: {folder / 'report.html'}", soft_wrap=True)


def conserved(audit: Audit) -> list[str]:
    """INV-CONSERVE: what became of the sends, and of which of them a delivery told that they were stored."""
    sends = audit.gates.operations.get("send")
    if sends is None:
        return []
    tried = f"{sends['attempted']:,} sends by all accounts: {sends['ok']:,} ok, {sends['fail']:,} refused, "
    tried += f"{sends['info']:,} of unknown outcome"
    arrived = f"delivered of them: {audit.numbers.confirmed:,} ok, {audit.numbers.recovered:,} recovered"
    return [f"{tried}; {arrived}" if audit.numbers.traced else tried]


def sentence(sample: dict[str, object]) -> str:
    """One finding in words."""
    message, group, margin = sample["message_id"], sample["group"], sample["margin_ms"]
    other = sample["other_message_id"]
    how = f" by {float(margin) / 1000:,.3f} s" if isinstance(margin, float | int) else ""
    seen = f"seen by the {sample['observer']}"
    text = _SENTENCES[str(sample["check"]), str(sample["invariant"])].format(
        message=message,
        group=group,
        how=how,
        other=other,
        attempt=sample["attempt"],
        was=sample["other_attempt"],
        queue=sample["queue"],
        offset=sample["offset"],
    )
    doubt = "" if sample["verdict"] == "broken" else " (possible, not proven)"
    return f"{text}, {seen}{doubt}."
