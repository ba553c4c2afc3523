"""Check `queues`: consumers that own whole queues own them alone, and read each in the order of its offsets.

INV-ASSIGN: the times at which two pull consumers of a group own a queue overlap by no more than the time that
a rebalance takes. INV-PULL-ORD: what one of them is handed from a queue has increasing offsets, unless it was
assigned anew, or went to another offset on purpose.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, functions as F

from aiorocketmq_audit import excuses
from aiorocketmq_audit.findings import BROKEN, EXCUSED, finding, place

NAME = "queues"

REBALANCE_US = 30_000_000
"""How long two owners are tolerated: clients rebalance every 20 s, each at its own time."""

_ACCOUNT = ("run_id", "case_id", "observer")
_QUEUE = (*_ACCOUNT, "group", "topic", "broker", "queue")


def facts(events: DataFrame, marks: DataFrame, *, ended_us: int) -> DataFrame:
    """Times of ownership, and deliveries to owners: rows of FINDING, whose verdict is null where all is well."""
    return _exclusive(events, ended_us).unionByName(_in_order(events, marks))


def assigned(events: DataFrame) -> DataFrame:
    """One row per pull consumer, queue and assignment that names it."""
    told = events.where("kind = 'assign' and role = 'pull' and topic is not null")
    flat = told.withColumn("owned", F.explode("queues"))
    return flat.select(
        *_ACCOUNT,
        "group",
        "topic",
        F.col("owned.broker").alias("broker"),
        F.col("owned.queue").alias("queue"),
        "client_id",
        "epoch",
        "recorder",
        "t_wall_us",
        "seq",
        "leaves_us",
    )


def _exclusive(events: DataFrame, ended_us: int) -> DataFrame:
    runs = _ownerships(events, ended_us)
    other = runs.select(
        *_QUEUE,
        F.col("client_id").alias("o_client"),
        F.col("from").alias("o_from"),
        F.col("to").alias("o_to"),
        F.col("began").alias("o_began"),
    )
    earlier = (F.col("o_client") != F.col("client_id")) & (
        (F.col("o_from") < F.col("from"))
        | ((F.col("o_from") == F.col("from")) & (F.col("o_client") < F.col("client_id")))
    )
    both = F.least("to", "o_to") - F.col("from")
    beside = runs.join(other, list(_QUEUE), "left").withColumn(
        "overlap", F.when(earlier & (both > REBALANCE_US), F.struct(both.alias("us"), "o_began"))
    )
    worst = beside.groupBy(*_QUEUE, "client_id", "from", "to", "began").agg(F.max("overlap").alias("worst"))
    return worst.select(
        finding(
            NAME,
            F.lit("INV-ASSIGN"),
            F.when(F.col("worst").isNotNull(), F.lit(BROKEN)),
            margin=F.col("worst.us"),
            at=F.col("from"),
            first=(F.col("worst.o_began.recorder"), F.col("worst.o_began.seq")),
            second=(F.col("began.recorder"), F.col("began.seq")),
        )
    )


def _ownerships(events: DataFrame, ended_us: int) -> DataFrame:
    """From when to when a client owned a queue, over all assignments in a row that name it."""
    own = Window.partitionBy(*_ACCOUNT, "client_id", "recorder", "epoch").orderBy("t_wall_us", "seq")
    lives = events.where("kind in ('assign', 'client.stop', 'client.crash')")
    until = lives.withColumn("leaves_us", F.coalesce(F.lead("t_wall_us").over(own), F.lit(ended_us)))
    held = assigned(until)
    by_queue = Window.partitionBy(*_QUEUE, "client_id", "epoch").orderBy("t_wall_us", "seq")
    begins = F.coalesce(F.lag("leaves_us").over(by_queue) != F.col("t_wall_us"), F.lit(True))
    runs = held.withColumn("begins", begins.cast("int")).withColumn("run", F.sum("begins").over(by_queue))
    return runs.groupBy(*_QUEUE, "client_id", "epoch", "run").agg(
        F.min("t_wall_us").alias("from"), F.max("leaves_us").alias("to"), F.min(place()).alias("began")
    )


def _in_order(events: DataFrame, marks: DataFrame) -> DataFrame:
    given = events.where("kind = 'deliver' and role = 'pull' and offset is not null")
    by_owner = Window.partitionBy(*_QUEUE, "client_id", "recorder").orderBy("seq")
    seen = given.select(
        "recorder",
        *_QUEUE,
        "client_id",
        "offset",
        F.xxhash64("run_id", "case_id").alias("scope"),
        F.xxhash64("group").alias("who"),
        F.xxhash64("client_id").alias("client"),
        F.col("t_wall_us").alias("n_hi"),
        F.xxhash64("recorder").alias("n_recorder"),
        F.col("seq").alias("n_seq"),
        F.lag("offset").over(by_owner).alias("before"),
        F.lag("t_wall_us").over(by_owner).alias("lo"),
        F.lag("seq").over(by_owner).alias("seq"),
    ).drop("recorder")
    seen = seen.withColumn("recorder", F.col("n_recorder")).withColumn("acked_hi", F.lit(None).cast("bigint"))
    judged = excuses.with_excuse(seen, marks, moves=True)
    return judged.select(
        finding(
            NAME,
            F.lit("INV-PULL-ORD"),
            _verdict(F.col("offset") <= F.col("before")),
            margin=F.lit(None),
            at=F.col("n_hi"),
            first=(F.col("recorder"), F.coalesce("seq", "n_seq")),
            second=(F.col("n_recorder"), F.col("n_seq")),
            excuse=F.when(F.col("offset") <= F.col("before"), F.col("excuse")),
        )
    )


def _verdict(wrong: Column) -> Column:
    return F.when(wrong, F.when(F.col("excuse").isNotNull(), F.lit(EXCUSED)).otherwise(F.lit(BROKEN)))
