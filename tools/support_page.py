"""The page of supported servers: features by protocol and server version, counted from recorded runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from tools.matrix_page import Run

_VERSIONS = (
    "apache:5.5.0",
    "apache:5.5.0:cluster",
    "apache:5.4.0",
    "apache:5.3.3",
    "apache:5.2.0",
    "apache:4.9.7",
)
_WITHOUT_GRPC = "apache:4.9.7"
"""A server without gRPC: what it can be judged by is remoting."""

_GRPC = {
    "Send, batches, receipts": ("send",),
    "Simple consumer: receive, leases, acknowledgements": ("simple",),
    "Push consumer": ("push",),
    "Ordered message groups": ("fifo",),
    "Retry and back-off": ("retry", "timing"),
    "Dead letters": ("dlq",),
    "Delayed messages": ("delay",),
    "Recall of delayed messages": ("recall",),
    "Transactions": ("tx",),
    "Priorities": ("prio",),
    "Lite topics": ("lite",),
    "Filters (tags, SQL92)": ("filter",),
    "Shared queues and members of a group": ("lb", "reb", "member"),
    "Offsets, resets, retention": ("offset", "keep"),
    "Sessions, settings, heartbeats": ("life",),
    "Users and rights": ("auth",),
    "Limits and throttling": ("limit",),
    "Restarts and network faults": ("fault",),
}
_REMOTING = {
    "Pull consumer, filters": ("pull",),
    "Shared queues, rebalancing, strategies": ("lb", "reb", "strategy", "member"),
    "Queue locks": ("lock",),
    "Offsets, resets, retention": ("offset", "keep"),
}
_HEAD = """# Supported servers

Written by `python -m tools.pages` from recorded runs of the conformance suite (do not edit); [every case](matrix.md)
is a page of its own.

A number is how many cases of a feature hold on the server. *known*: cases that do not, for a reason on the list of
known deviations. `-`: the server does not have it, or no case of it was run there. *cluster* is a broker behind a
separate proxy.

"""
_POLICY = """## What this means

- **Servers**: Apache RocketMQ 5.2 to 5.5 over gRPC, 4.9 and later over remoting. A version that the table does not
  name is untested, not refused.
- **Clients over remoting** beyond these cases (sends, push consumption, administration, redrive) are tested with our
  clients on [real servers](real-servers.md).
- **Python** 3.11 and later on Linux, with the lowest and the newest versions of all dependencies. Other systems are
  untested.
- **Versions of this package** follow Semantic Versioning. Before 1.0 a minor version may change the public API, which
  is what `__all__` of the public modules names; the changelog says how. Recordings say which version of the format
  they have, and an audit refuses those it cannot read. A data folder of the fake is read by the version that wrote
  it.
"""


def page(runs: Mapping[str, Run]) -> str:
    """Return the whole page."""
    remoting = {case for case, verdict in runs[_WITHOUT_GRPC]["verdicts"].items() if verdict != "n/a"}
    every = {case for run in runs.values() for case in run["verdicts"]}
    return "".join(
        (
            _HEAD,
            *_table("gRPC", _GRPC, every - remoting, runs, _VERSIONS[:-1]),
            *_table("Remoting", _REMOTING, remoting, runs, _VERSIONS),
            _POLICY,
        )
    )


def _table(
    protocol: str,
    features: Mapping[str, tuple[str, ...]],
    cases: Iterable[str],
    runs: Mapping[str, Run],
    targets: tuple[str, ...],
) -> Iterable[str]:
    names = [target.removeprefix("apache:").replace(":", " ") for target in targets]
    yield f"## {protocol}\n\n| feature | {' | '.join(names)} |\n| --- |{' --- |' * len(names)}\n"
    for title, groups in features.items():
        chosen = [case for case in cases if case.partition(".")[0] in groups]
        cells = [_cell(runs[target]["verdicts"], chosen) for target in targets]
        yield f"| {title} | {' | '.join(cells)} |\n"
    yield "\n"


def _cell(verdicts: Mapping[str, str], cases: Iterable[str]) -> str:
    counts = Counter(verdicts.get(case, "") for case in cases)
    parts = [
        f"{counts['pass']}" if counts["pass"] else "",
        f"{counts['xfail']} known" if counts["xfail"] else "",
        f"**{counts['fail']} broken**" if counts["fail"] else "",
    ]
    return ", ".join(filter(None, parts)) or "-"
