"""Every mutant, and the cases that no mutant is to be found out by."""

from __future__ import annotations

from collections.abc import Mapping

from aiorocketmq_conformance.mutants.delays import DELAYS
from aiorocketmq_conformance.mutants.filtering import FILTERING
from aiorocketmq_conformance.mutants.priorities import PRIORITIES
from aiorocketmq_conformance.mutants.receiving import RECEIVING
from aiorocketmq_conformance.mutants.sending import SENDING
from aiorocketmq_conformance.mutants.sessions import SESSIONS
from aiorocketmq_conformance.mutants.settling import SETTLING
from aiorocketmq_conformance.mutants.transactions import TRANSACTIONS

MUTANTS = (
    *SESSIONS,
    *SENDING,
    *RECEIVING,
    *FILTERING,
    *SETTLING,
    *TRANSACTIONS,
    *DELAYS,
    *PRIORITIES,
)

_LIBRARY = "judges the client library, whose own tests break it; no broker is asked"

UNPROVEN: Mapping[str, str] = {
    **{f"life.sdk-start-bad-endpoint[{kind}]": _LIBRARY for kind in ("producer", "push", "simple")},
    "filter.sql-float-int": "informational: it is recorded and never fails",
    "filter.sql-absent": "every target that the suite brings serves SQL filters",
    **{
        f"life.sdk-start-missing[{part}]": _LIBRARY
        for part in ("endpoint", "group", "handler", "concurrency", "timeouts", "topic")
    },
}
"""Cases that no mutant kills, each with its reason."""
