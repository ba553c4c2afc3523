"""Why Apache's servers do not meet some needs: the details of cases that are not applicable."""

from __future__ import annotations

from collections.abc import Mapping

_ALWAYS = {
    "pull": "its gRPC service answers pulls and offset requests with UNIMPLEMENTED",
    "namespace": "it accepts a namespace and drops it",
    "client-properties": "it does not check client properties",
    "@keep": "its retention is in hours, and it deletes whole files of its log",
    "@disk": "the suite fills no disks",
    "@lag": "it counts whole queues only, without in-flight messages, and the suite does not send these requests",
    "@clock": "its clock is the machine's",
    "batch.receipt=each": "its response to a batch has one entry",
    "order.grain=group": "an un-acked ordered message blocks its whole queue",
}
_LOCAL = {
    "type.lite": "a proxy with its broker inside answers lite subscriptions with INTERNAL_SERVER_ERROR: "
    "lite topics are judged on apache:5.5.0:cluster",
    "@proxies": "its proxy has the broker inside, so that there is no second one",
}
_BEFORE_5_5 = {
    "suspend": "suspension came with 5.5.0: 5.4.0 accepts the flag and counts the attempt",
    "type.lite": "lite topics came with 5.5.0",
    "batch-delays": "a batch of delayed messages ends its timer, and with it every delay and retry",
}
_BEFORE_5_4 = {
    "type.priority": "priority topics came with 5.4.0",
    "large-delays": "a delayed message of the largest body ends its timer for good (newLimit > capacity), and with it "
    "every delay and retry",
}
_BEFORE_5_3 = {
    "recall": "recall came with 5.3",
    "auth": "users and rights of this kind came with 5.3",
    "@acl": "users and rights of this kind came with 5.3",
}


def absences(version: tuple[int, ...], mode: str) -> Mapping[str, str]:
    """Return the reason for each need that Apache RocketMQ of that version and mode does not meet, by need."""
    reasons = {**_ALWAYS, **(_LOCAL if mode == "local" else {})}
    for since, missing in (((5, 5), _BEFORE_5_5), ((5, 4), _BEFORE_5_4), ((5, 3), _BEFORE_5_3)):
        if version < since:
            reasons |= missing
    return reasons
