"""Filters: a consumer gets what it asked for, and nothing else.

INV-FILTER   A delivery's tag is one of those that its receive asked for. SQL expressions are not judged: the properties
             that they look at are not in a recording.
INV-ISOLATE  An answer holds messages of the topic, and for the group, that its poll asked for; and a consumer of lite
             topics gets messages of those that it wants, and of no others.

Of lite topics: a list that was told to the servers counts from its call on, and what it leaves out is surely over when
it was answered OK before the poll of a delivery was asked. Judged are clients whose whole list was told by then; a list
of which nobody knows whether it came there may count for ever, and what a server says to have taken away is over for
the audit with the next whole list, as a list under way may have crossed that word.
"""

from __future__ import annotations

from aiorocketmq_audit.rules.rule import Check, Rule

CHECK = Check(
    "filters",
    "A consumer gets what it asked for, and nothing else.",
    "deliveries by tag or lite topic, and answers to polls",
    depends_on_time=False,
)

DELIVERIES = (Rule(check=CHECK.name, invariant="INV-FILTER", judged="by_tag", violated="unwanted"),)

ANSWERS = (
    Rule(
        check=CHECK.name,
        invariant="INV-ISOLATE",
        # Two polls of one id say nothing.
        judged="asked_least = asked_most and given_least is not null",
        violated="given_least != asked_most or given_most != asked_most",
        first="poll",
        second="stray",
    ),
)

LITE = (
    Rule(
        check=CHECK.name,
        invariant="INV-ISOLATE",
        judged="true",
        violated="coalesce(wanted, -1) < over.since",
        first="struct(given.at as at, given.recorder as recorder, over.seq as seq)",
        second="struct(given.at as at, given.recorder as recorder, given.seq as seq)",
    ),
)
