"""What is measured: the kinds of work, who does them, and what is asked of the ratios."""

from __future__ import annotations

from dataclasses import dataclass

STUB, OURS, APACHE = "bare grpc.aio stub", "aiorocketmq", "Apache's Python client"
CLIENTS = {
    STUB: "benchmarks.clients.stub",
    OURS: "benchmarks.clients.ours",
    APACHE: "benchmarks.clients.apache",
}


@dataclass(frozen=True, slots=True)
class Demand:
    """What is asked of our figure over another client's, both of the same rounds."""

    figure: str
    """`rate`, `cpu_us` or `p50_ms`."""
    beside: str
    limit: float

    @property
    def is_floor(self) -> bool:
        """Whether the ratio must reach the limit; of costs it must not exceed it."""
        return self.figure == "rate"


FIGURES = {"rate": "rate", "cpu_us": "CPU", "p50_ms": "p50"}
"""What pages call a figure."""
NO_WORSE = (Demand("rate", APACHE, 1.0), Demand("cpu_us", APACHE, 1.0))


@dataclass(frozen=True, slots=True)
class Work:
    """One row of the table."""

    title: str
    kind: str
    in_flight: int
    demands: tuple[Demand, ...] = NO_WORSE
    load: int = 0
    """Messages that wait in the topic when the work starts."""


WORKS = (
    Work(
        "send, 64 calls in flight",
        "send",
        64,
        demands=(Demand("rate", STUB, 0.85), Demand("cpu_us", STUB, 1.25), *NO_WORSE),
    ),
    Work("send, 1 call in flight", "send", 1),
    Work(
        "send, 256 in flight, gathered into batches of 32",
        "linger",
        256,
        demands=(Demand("rate", APACHE, 1.0), Demand("cpu_us", APACHE, 1 / 10)),
    ),
    Work(
        "send_many of 32, gathered, 8 at a time",
        "many",
        256,
        demands=(Demand("cpu_us", STUB, 1.7), Demand("rate", APACHE, 1.0), Demand("cpu_us", APACHE, 1 / 10)),
    ),
    Work("receive 32 and acknowledge, 4 at a time", "simple", 4, load=30_000),
    Work(
        "be called for a backlog, and acknowledge",
        "push",
        4,
        demands=(Demand("rate", APACHE, 1.0), Demand("cpu_us", APACHE, 1 / 5), Demand("cpu_us", STUB, 1.7)),
        load=30_000,
    ),
    Work(
        "send to handler at 200 messages a second",
        "end_to_end",
        1,
        demands=(Demand("p50_ms", STUB, 1.4), Demand("p50_ms", APACHE, 1.0), Demand("cpu_us", APACHE, 1.0)),
    ),
)


@dataclass(frozen=True, slots=True)
class Size:
    """One figure of start and size, with what is allowed."""

    key: str
    title: str
    unit: str
    limit: float | None
    """The most that is allowed; None where the figure is shown beside another one only."""


SIZES = (
    Size("fake_ready_s", "`aiorocketmq fake serve`, process start to ready", "s", 0.5),
    Size("fake_idle_mb", "the same, resident memory when idle", "MB", 80),
    Size("fresh_fake_ms", "a fresh fake in the process of a test, entered and left", "ms", 10),
    Size("import_s", "`import aiorocketmq` in a fresh process, all public names loaded", "s", 0.35),
    Size("help_s", "`aiorocketmq --help`", "s", 0.4),
    Size("idle_kb", "an idle push consumer of 1,000, beyond its two bare streams on the channel", "KB", 45),
    Size("idle_kb_in_all", "the same, grpcio's part of the streams included", "KB", 80),
    Size(
        "core_us",
        "the fake's core alone: CPU for one message sent, received and acknowledged, 32 by a receive and an ack",
        "µs",
        40,
    ),
    Size("core_single_us", "the same, each message by a receive and an ack of its own", "µs", None),
    Size("core_stored_ratio", "the same with 1,000,000 messages stored, beside 1,000", "times", 1.2),
    Size("core_groups_ratio", "the same with 1,000 groups on the topic, beside 1", "times", 1.2),
    Size("core_million_gb", "memory of the core with 1,000,000 messages of 1 KiB", "GB", 2.2),
    Size("core_polls_ms", "what 10,000 parked polls of another topic add to a command", "ms", 1),
    Size(
        "edge_cost",
        "CPU of a send in the fake's process, beside a server that decides nothing",
        "times",
        1 / 0.7,
    ),
    Size(
        "stored_mb",
        "`fake serve --data DIR --data-memory 64`, most resident memory while 1,000,000 messages of 1 KiB are "
        "stored and consumed",
        "MB",
        200,
    ),
    Size(
        "suite_s",
        "the whole conformance suite on the fake, `aiorocketmq conformance run --target fake`",
        "s",
        60,
    ),
    Size("one_case_s", "the same, one case by its id", "s", 2),
    Size("growth_mb", "memory that the second 500,000 messages add to a producer and a consumer", "MB", 5),
    Size("idle_tasks", "the same, tasks (three of grpcio included)", "tasks", 5.1),
    Size("idle_cpu", "1,000 idle push consumers in one process, share of one core", "%", 4),
    Size(
        "idle_cpu_beside",
        "the same, beside that of 1,000 bare streams that poll again and again and do nothing else",
        "times",
        2.5,
    ),
    Size("idle_connections", "1,000 idle push consumers in one process, connections", "", 1),
    Size(
        "share_averagely",
        "1,000 queues shared over 100 consumers of which one has just joined, averagely, beside an answer of a name "
        "server",
        "times",
        1,
    ),
    Size("share_by_circle", "the same, by circle", "times", 1),
    Size("share_consistent_hash", "the same, by consistent hash", "times", 1),
    Size("share_configured", "the same, by configuration", "times", 1),
    Size("share_machine_room", "the same, by machine room", "times", 1),
    Size("share_nearby", "the same, averagely within machine rooms", "times", 1),
    Size(
        "share_first", "a topic and a group that are new, by consistent hash, beside the same", "times", None
    ),
)
