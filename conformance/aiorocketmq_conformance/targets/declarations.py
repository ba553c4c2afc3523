"""Declarations of the targets that the suite knows, each number with its source."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from aiorocketmq_conformance.declaration import Declaration, Number

# Capabilities of every RocketMQ 5 with a gRPC service.
COMMON_CAPABILITIES = frozenset(
    {
        "type.fifo",
        "type.delay",
        "type.tx",
        "type.check",
        "dlq",
        "batch-send",
        "autorenew",
        "sdk",
        "filter.sql",
    }
)
# Abilities of an admin interface, of the fake or of the classic protocol.
PREPARATION = frozenset({"@topic", "@group", "@delete", "@reset"})
# Those of a broker that creates names at first use.
AT_FIRST_USE = frozenset({"@topic", "@group"})

# Numbers and their sources: "published" is broker-semantics.md and the inventory's section 3, "measured" is
# live-broker-consumption.md section 12. Times are seconds.
DOCUMENTED_NUMBERS: Mapping[str, Number] = MappingProxyType(
    {
        "invisible.min": 0.001,  # published: any length up to 12 h
        "invisible.max": 43200.0,
        "poll.min": 5.0,
        "poll.max": 20.0,
        "batch.max": 32,
        "body.max": 4194304,
        "early": 0.05,  # deliveries may be early by this
        "revive.low": 0.0,  # earliest redelivery of a normal group, counted from expiry
        "revive.high": 2.0,
        "nack.low": 0.0,  # the same, counted from the duration of a change
        "nack.high": 2.0,
        "revive.ordered.high": 2.0,
        "wake.high": 1.0,  # a parked poll notices a new message within this
        "poll.late": 2.0,  # an empty poll ends by its time plus this
        "hold.late": 0.0,  # a pull that is held over remoting may take this much longer than its poll time
        "delay.high": 2.0,
        "trim.high": 1.0,  # expired messages are deleted within this
        "route.high": 5.0,  # a changed topic is seen by QueryRoute within this
        "receive.unknown-topic": "TOPIC_NOT_FOUND",
        "group.lookup": "taken",  # settings and heartbeats of an unknown group
        "group.closed-lookup": "taken",  # the same if only administrators create groups
        "group.receive": "refused",  # a receive of an unknown group
        "receive.illegal-sql": "ILLEGAL_FILTER_EXPRESSION",
        "sql.reads": "as published",  # or as Apache: absent values are false, text behind an expression is skipped
        "restart.high": 1.0,  # a restart takes no longer than this
        "order.grain": "group",
        "handle.checks": "lease",  # a handle is good while its lease is alive
        "change.settles": "all",  # whose acks with changed handles settle: all, or the first that a queue had read
        "group.start": "creation",  # a new group gets what is stored after its creation
        "retry.position": "kept",  # a redelivery has the queue and offset of the first delivery
        "poll.exhausted": "waits",  # a poll that finds nothing but messages to give up
        "reset.wakes": "yes",  # a parked poll notices an offset reset
        "offset.slack": 0,  # an offset by time is the first one stored at or after it, give or take this
        "recall.margin": 0.0,  # a recall nearer to the delivery time may be refused
        "tx.memory": 30.0,  # a decision is accepted this long after the send or the last check
        "batch.contents": "each",  # ids and properties of delivered batches: of each message, or of the first
        "batch.receipt": "each",  # the response to a batch has an entry for each message, or one
        "lite.scan": 0.0,  # interval of scans for expired lite topics
        "lite.life": 180.0,  # a lite subscription expires after this unless it is renewed
        "tx.immunity": 6.0,  # a half message is not checked earlier than this
        "tx.interval": 60.0,  # published: once a minute, until it is four hours old
        "send.unknown-topic": "TOPIC_NOT_FOUND",
        "send.busy": "TOO_MANY_REQUESTS",
        "send.backoff": "3 attempts, 0.01 to 1 s by 2",  # in the settings of producers
        # published: default intervals of retries
        "retry.steps": "10 30 60 120 180 240 300 360 420 480 540 600 1200 1800 3600 7200",
    }
)
APACHE_NUMBERS: Mapping[str, Number] = MappingProxyType(
    {
        **DOCUMENTED_NUMBERS,
        "early": 0.1,
        "invisible.min": 10.0,  # measured: live-broker-consumption.md section 2
        "revive.low": 2.0,  # measured: end + 2.0 s, typically + 3.2 s
        "revive.high": 10.0,
        "nack.low": 1.9,
        "nack.high": 10.0,
        "wake.high": 1.0,
        "hold.late": 5.0,  # measured: held pulls are checked every 5 s (live-broker-remoting.md 4)
        "delay.high": 10.0,
        "trim.high": 120.0,  # measured: scanned every 10 s, for the first time a minute after the start
        "route.high": 60.0,
        "send.unknown-topic": "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE",  # measured: the type is checked first
        "receive.unknown-topic": "INTERNAL_SERVER_ERROR",  # measured, local mode
        "group.lookup": "refused",  # measured: live-broker-session.md section 2.4, local mode
        "group.closed-lookup": "refused",  # measured, local mode and separate proxy
        "group.receive": "made",
        "receive.illegal-sql": "INTERNAL_SERVER_ERROR",  # measured
        "sql.reads": "as Apache",  # measured with 671 expressions on 5.5.0 and 5.3.3
        "retry.steps": "1 5 10 30 60 120 180 240 300 360 420 480 540 600 1200 1800 3600 7200",  # measured
        "send.busy": "INTERNAL_SERVER_ERROR",  # R1.9: the local mode has no better code
        "lite.scan": 120.0,  # R4.34
        "restart.high": 120.0,  # measured on a busy machine: 85 to 120 s
        "batch.receipt": "one",  # measured: live-broker-session.md section 4.7
        "tx.interval": 30.0,  # measured: live-broker-session.md section 6
        "tx.checks": 15,  # measured: then the server gives up
        "poll.exhausted": "ends",  # measured: live-broker-consumption.md section 5
        "offset.slack": 1,  # R10.7
        "reset.wakes": "no",  # measured: live-broker-consumption.md section 7
        "recall.margin": 1.0,  # measured: between 0.4 and 1.0 s, live-broker-session.md section 5
        "handle.checks": "form",  # measured: any well-formed handle that has not expired
        "change.settles": "first",  # measured on 5.3.3 and 5.5.0: the others of a batch come back
        "group.start": "whole",  # measured: live-broker-consumption.md section 7
        "retry.position": "copied",  # measured: that of the retry topic (R7.1)
        "order.grain": "queue",  # measured: an un-acked ordered message blocks its whole queue
    }
)


# measured: up to 5.3.3 redeliveries do not wake parked polls (live-broker-consumption.md section 12), so that a poll
# of 20 s is added.
OLD_NUMBERS: Mapping[str, Number] = MappingProxyType(
    {
        **APACHE_NUMBERS,
        "revive.high": 30.0,
        "nack.high": 30.0,
        "group.lookup": "taken",
        "batch.contents": "first",  # measured: up to 5.3.3 ids, tags and properties of the first message
        "group.closed-lookup": "taken",  # measured on 5.3.3: only receives and forwards are refused
    }
)
# measured: live-broker-session.md, consequence 16
CLUSTER_NUMBERS: Mapping[str, Number] = MappingProxyType(
    {
        **APACHE_NUMBERS,
        "receive.unknown-topic": "TOPIC_NOT_FOUND",
        "send.busy": "TOO_MANY_REQUESTS",
        "group.lookup": "taken",
        "change.settles": "all",  # measured
    }
)
# From 5.4 on.
_APACHE = COMMON_CAPABILITIES | {"type.priority", "suspend", "tls", "batch-delays", "large-delays"}
# Of whoever controls the server's process.
ABILITIES = frozenset(
    {"@clock", "@restart", "@process", "@keep", "@disk", "@trim", "@lag"}
    | {"@acl", "@verify", "@throttle", "@lite-life"}
)
_FAKE = _APACHE | PREPARATION | ABILITIES | {"auth", "remoting"}


DECLARATIONS: Mapping[str, Declaration] = MappingProxyType(
    {
        "documented": Declaration("RocketMQ 5", "as published", COMMON_CAPABILITIES, DOCUMENTED_NUMBERS),
        "apache-5.5": Declaration("Apache RocketMQ", "5.5", _APACHE, APACHE_NUMBERS),
        "apache-5.3": Declaration(
            "Apache RocketMQ", "5.2 and 5.3", COMMON_CAPABILITIES | {"tls"}, OLD_NUMBERS
        ),
        "apache-4.9": Declaration(
            "Apache RocketMQ", "4.9", frozenset({"filter.sql"}), APACHE_NUMBERS, is_classic=True
        ),
        "apache-5.5-cluster": Declaration(
            "Apache RocketMQ",
            "5.5 behind a separate proxy",
            _APACHE,
            CLUSTER_NUMBERS,
        ),
        "fake-documented": Declaration(
            "aiorocketmq fake",
            "documented",
            _FAKE
            | {"type.mixed", "type.lite", "recall", "pull", "pull-balance", "namespace", "client-properties"}
            | {"@proxies"},
            DOCUMENTED_NUMBERS,
            is_documented=True,
        ),
        "fake-apache-5.5": Declaration("aiorocketmq fake", "apache-5.5", _FAKE, APACHE_NUMBERS),
        "fake-apache-5.5-cluster": Declaration(
            "aiorocketmq fake", "apache-5.5-cluster", _FAKE | {"@proxies"}, CLUSTER_NUMBERS
        ),
    }
)
"""Declarations of the suite's targets, and those for an address (`--declared`)."""
