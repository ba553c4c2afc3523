"""Check `commits`: a group's progress in a queue does not fall, and is not ahead of what was handed out.

INV-COMMIT: without a reset, or a consumer that went elsewhere on purpose, each written offset is at least the
one before it; and on the account of pull consumers without a filter it is at most one more than the highest
offset that any of them was handed from the queue since it was assigned.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window, functions as F

from aiorocketmq_audit import excuses
from aiorocketmq_audit.findings import BROKEN, EXCUSED, finding
from aiorocketmq_audit.queues import assigned

NAME = "commits"

_QUEUE = ("run_id", "case_id", "observer", "group", "topic", "broker", "queue")


def facts(events: DataFrame, marks: DataFrame) -> DataFrame:
    """Written offsets: rows of FINDING, whose verdict is null where all is well."""
    progress = _progress(events)
    own = Window.partitionBy(*_QUEUE).orderBy("at", "seq")
    before = own.rowsBetween(Window.unboundedPreceding, -1)
    written = F.when(F.col("kind") == "commit", F.struct("committed", "at", "recorder", "seq"))
    read = F.when(F.col("kind") == "deliver", F.struct("offset", "at", "recorder", "seq"))
    begun = F.when(F.col("kind") == "assign", F.struct("at", "seq"))
    seen = progress.withColumns(
        {
            "last": F.last(written, ignorenulls=True).over(before),
            "highest": F.max(read).over(before),
            "read": F.last(F.when(F.col("kind") == "deliver", F.struct("at", "seq")), ignorenulls=True).over(
                before
            ),
            "begun": F.last(begun, ignorenulls=True).over(before),
            "filtered": F.max("by_filter").over(before),
        }
    ).where("kind = 'commit'")
    fell = F.coalesce(F.col("committed") < F.col("last.committed"), F.lit(False))
    # Who was assigned the queue since may go on from where somebody unseen had come to.
    known = F.col("begun").isNull() | (F.col("read") > F.col("begun"))
    ahead = F.coalesce(
        (F.col("committed") > F.col("highest.offset") + 1) & known & ~F.col("filtered"), F.lit(False)
    )
    proof = F.when(fell, F.struct("last.at", "last.recorder", "last.seq")).otherwise(
        F.struct("highest.at", "highest.recorder", "highest.seq")
    )
    spans = seen.select(
        (fell | ahead).alias("wrong"),
        F.xxhash64("run_id", "case_id").alias("scope"),
        F.xxhash64("group").alias("who"),
        F.lit(None).cast("bigint").alias("client"),
        F.lit(None).cast("bigint").alias("acked_hi"),
        F.coalesce(proof["at"], "at").alias("lo"),
        F.coalesce(proof["recorder"], "recorder").alias("recorder"),
        F.coalesce(proof["seq"], "seq").alias("seq"),
        F.col("at").alias("n_hi"),
        F.col("recorder").alias("n_recorder"),
        F.col("seq").alias("n_seq"),
    )
    judged = excuses.with_excuse(spans, marks)
    excuse = F.when(F.col("wrong"), F.col("excuse"))
    return judged.select(
        finding(
            NAME,
            F.lit("INV-COMMIT"),
            F.when(F.col("wrong"), F.when(excuse.isNotNull(), F.lit(EXCUSED)).otherwise(F.lit(BROKEN))),
            margin=F.lit(None),
            at=F.col("n_hi"),
            first=(F.col("recorder"), F.col("seq")),
            second=(F.col("n_recorder"), F.col("n_seq")),
            excuse=excuse,
        )
    )


def _progress(events: DataFrame) -> DataFrame:
    """Commits with an offset, what pull consumers were handed, and when they were assigned, by queue."""
    of_queues = events.where(
        "(kind = 'commit' and commit_offset is not null) or (kind = 'deliver' and role = 'pull')"
    )
    columns = (
        *_QUEUE,
        "kind",
        F.col("t_wall_us").alias("at"),
        F.xxhash64("recorder").alias("recorder"),
        "seq",
    )
    told = of_queues.select(
        *columns,
        "offset",
        F.col("commit_offset").alias("committed"),
        (F.coalesce("filter", F.lit("TAG:*")) != "TAG:*").alias("by_filter"),
    )
    begun = assigned(events.withColumn("leaves_us", F.lit(None).cast("bigint")))
    return told.unionByName(
        begun.withColumn("kind", F.lit("assign")).select(
            *columns,
            F.lit(None).cast("bigint").alias("offset"),
            F.lit(None).cast("bigint").alias("committed"),
            F.lit(None).cast("boolean").alias("by_filter"),
        )
    )
