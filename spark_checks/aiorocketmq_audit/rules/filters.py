"""Filters: a consumer is delivered what it subscribed to, and nothing else.

INV-FILTER   A delivery's tag matches the filter of its receive. SQL expressions are not judged: a recording does not
             contain the properties that they refer to.
INV-ISOLATE  An answer holds messages of the topic and group of its poll; and a consumer of lite topics is delivered
             messages of its subscribed lite topics only.

A subscription of lite topics counts from the call of its list on. It has surely ended if a later list without the topic
was answered OK before the poll of a delivery began. Only clients with a complete list by then are judged. A list of
unknown outcome may count for ever; a topic that the server unsubscribed counts until the next complete list, since a
list in flight may have crossed the notification.
"""

from __future__ import annotations

from aiorocketmq_audit.rules.rule import Check, Rule

CHECK = Check(
    "filters",
    "A consumer is delivered what it subscribed to, and nothing else.",
    "deliveries by tag or lite topic, and answers to polls",
    depends_on_time=False,
)

DELIVERIES = (Rule(check=CHECK.name, invariant="INV-FILTER", judged="by_tag", violated="unwanted"),)

ANSWERS = (
    Rule(
        check=CHECK.name,
        invariant="INV-ISOLATE",
        # Two polls with one id cannot be told apart.
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
