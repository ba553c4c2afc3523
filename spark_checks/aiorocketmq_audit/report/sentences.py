"""Sentences of an audit, which page and terminal share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiorocketmq_audit.text import duration, volume

SENTENCES = {
    "INV-ORD": "{message_id} was delivered to group {group} before {other_message_id}, ahead of it, was settled",
    "INV-ORD-FIRST": "{message_id} was first delivered to group {group} after {other_message_id}, which is behind it",
    "INV-ORD-HANDLE": "group {group} began to handle {message_id} while it was handling {other_message_id}",
    "INV-EXCL": "{message_id} was delivered to group {group} again before the first lease expired",
    "INV-ACKED": "{message_id} was delivered to group {group} again after its ack",
    "INV-EARLY": "{message_id} was redelivered to group {group} sooner than requested",
    "delay INV-EARLY": "{message_id} was delivered to group {group} before its delivery time",
    "INV-LATE": "{message_id} was redelivered to group {group} late, or never, while consumers polled for it",
    "INV-ATTEMPT": "{message_id} was delivered to group {group} as attempt {attempt} after attempt {other_attempt}",
    "INV-LIMIT": "{message_id} was delivered to group {group} as attempt {attempt}, which the group does not allow",
    "INV-DLQ": "{message_id} became a dead letter of group {group} twice or too soon, or was delivered afterwards",
    "INV-DLQ-LIVE": "{message_id} used up its attempts in group {group} and is no dead letter",
    "INV-ORIGIN": "{message_id} was delivered to group {group} and never sent",
    "INV-CONTENT": "{message_id} was delivered to group {group} with another body, or other properties, than sent",
    "INV-FAILED": "{message_id} was delivered to group {group} although its send was rejected",
    "INV-LOSS": "{message_id} was never settled for group {group}, which was drained",
    "INV-LOSS-MID": "{other_message_id} was stored and skipped: group {group} got {message_id}, which is behind it",
    "INV-FILTER": "{message_id} was delivered to group {group}, which subscribed to other tags",
    "INV-ISOLATE": "{message_id} was delivered to group {group} in the answer to a poll of another topic or group",
    "INV-TX": "{message_id} was delivered to group {group} without a commit before it",
    "INV-TX-CHECK": "a producer was asked about the transaction of {message_id} after it was decided",
    "INV-RECALL": "{message_id} was delivered to group {group} although it was recalled before its delivery time",
    "INV-ASSIGN": "{other_client_id} and {client_id} of group {group} owned one queue, beyond a rebalance",
    "INV-PULL-ORD": "{message_id} was delivered to group {group} from queue {queue} after {other_message_id}",
    "INV-LOCK": "{client_id} of group {group} was granted the lock of queue {queue}, which {other_client_id} held",
    "INV-LOCK-WORK": "{client_id} of group {group} handled {message_id} without the lock of queue {queue}",
    "INV-OFFSET": "{message_id} has the offset of {other_message_id}: queue {queue}, offset {offset}",
    "INV-OFFSET-ORD": "{message_id} was sent after {other_message_id} and has no higher offset in queue {queue}",
    "INV-COMMIT": "group {group} committed an offset of queue {queue} that fell, or was ahead of its deliveries",
    "INV-FAIR": "queue {queue} stalled for group {group} before {message_id} was delivered",
    "INV-HANDLE": "{message_id} was delivered to group {group} with the receipt handle of {other_message_id}",
}
"""By invariant, or by check and invariant; the names in braces are columns of a finding's evidence."""


def sentence(finding: Mapping[str, Any]) -> str:
    """Return one finding as a sentence."""
    form = SENTENCES.get(finding["invariant"], "{message_id} of group {group} breaks {invariant}")
    form = SENTENCES.get(f"{finding['check']} {finding['invariant']}", form)
    text = form.format_map({name: "(unknown)" if value is None else value for name, value in finding.items()})
    margin = finding["margin_ms"]
    by = "" if margin is None else f" (by {duration(margin / 1000)})"
    doubt = "" if finding["verdict"] == "broken" else "; possible, not certain"
    return f"{text}{by}, observed by the {finding['observer']}{doubt}."


def headline(document: Mapping[str, Any]) -> str:
    """Return the reasons of the overall verdict: numbers of findings, and checks without anything to judge."""
    checks, silent = document["checks"], document["silent"]
    required = document["required"]
    others = [name for name in silent if name not in required]
    judged = sum(check["name"] not in silent for check in checks)
    counts = [
        f"{total:,} {verdict} in {sum(bool(check[verdict]) for check in checks)} of {len(checks)} checks"
        for verdict in ("broken", "possible")
        if (total := sum(check[verdict] for check in checks))
    ]
    parts = counts or ([f"nothing broken in {judged} of {len(checks)} checks"] if judged else [])
    if required:
        parts.append(f"nothing to judge, though required: {', '.join(required)}")
    if others:
        parts.append(f"nothing to judge: {', '.join(others) if judged else 'all checks'}")
    return "; ".join(parts)


def reasons(check: Mapping[str, Any], document: Mapping[str, Any]) -> list[str]:
    """Return the reasons of one check's verdict, without those that hold for the whole recording."""
    shared = (*document["recording"]["missing"], *document["recording"]["clocks"])
    return [reason for reason in check["reasons"] if reason not in shared]


def recording(document: Mapping[str, Any]) -> list[str]:
    """Return facts about the whole recording, and the outcomes of its sends (INV-CONSERVE)."""
    about, deliveries = document["recording"], document["deliveries"]
    sentences = [*about["missing"], *about["clocks"]] or ["The recording is whole and its clocks agree."]
    if about["duplicated_rows"]:
        sentences.append("Some rows occur twice; each was counted once.")
    if open_calls := about["unfinished_operations"]:
        sentences.append(
            f"{open_calls:,} call(s) were never answered; they may or may not have had an effect."
        )
    if sends := about["operations"].get("send"):
        ended = f"{sends['ok']:,} ok, {sends['fail']:,} rejected, {sends['info']:,} of unknown outcome"
        came = f"{deliveries['confirmed']:,} ok, {deliveries['recovered']:,} recovered"
        came = f"; delivered of them: {came}" if deliveries["traced"] else ""
        sentences.append(f"{sends['attempted']:,} sends by all observers: {ended}{came}.")
    return sentences


def ran(spark: Mapping[str, Any] | None) -> str:
    """Return the figures of Spark's work; those that a session does not report are omitted."""
    if spark is None:
        return "There are no figures of Spark."
    parts = [f"{spark[name]:,} {name}" for name in ("jobs", "tasks") if spark[name]]
    if spark["shuffle_bytes"] is not None:
        parts.append(f"{volume(spark['shuffle_bytes'])} shuffled")
    parts.append(duration(spark["seconds"]))
    master = f", master {spark['master']}" if spark["master"] else ""
    return f"Spark {spark['version']}{master}: {', '.join(parts)}."
