"""Frames of queue locks: `grants` (each with the one before), and `locked work` (handled messages, and the state of the
lock meanwhile)."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window, functions as F

from aiorocketmq_audit.frames.frame import ACCOUNT, SCOPE, Frame, Recording
from aiorocketmq_audit.frames.places import called, place, scope
from aiorocketmq_audit.rules.locks import LIVES_US

_QUEUE = (*ACCOUNT, "group", "topic", "broker", "queue")
_GRANTED = "kind = 'lock' and phase = 'ok'"
_LOST = "(kind = 'unlock' or kind = 'lock' and phase = 'fail')"


def grants(recording: Recording) -> DataFrame:
    """Return one row per grant of a lock: when it was requested (`called`), until when it is surely held (`until`), and
    the same of the grant before, in the order of answers."""
    # By queue, which serves the windows of each client as well: one shuffle.
    requests = recording.events.where("kind in ('lock', 'unlock') and client_id is not null").repartition(
        *_QUEUE
    )
    apart = recording.settings.select(*SCOPE, "group", "apart_us")
    own = (
        Window.partitionBy(*_QUEUE, "client_id")
        .orderBy(called(), "seq")
        .rowsBetween(1, Window.unboundedFollowing)
    )
    given_up = F.first(F.when(F.expr(_LOST), called()), ignorenulls=True).over(own)
    # A restarted broker has lost all locks; recordings of clients contain the restart as a fault.
    life = F.when(F.col("observer") == "broker", F.col("boot")).alias("life")
    by_queue = Window.partitionBy(*_QUEUE, "life").orderBy("t_wall_us", "seq")
    granted = (
        requests.withColumn("until", F.least(called() + LIVES_US, given_up))
        .where(_GRANTED)
        .select(
            *_QUEUE,
            life,
            "t_wall_us",
            "seq",
            scope(),
            "until",
            called().alias("called"),
            F.xxhash64("client_id").alias("client"),
            F.xxhash64("recorder").alias("recorder"),
            place().alias("place"),
        )
    )
    before = F.lag(F.struct("client", "recorder", "until", F.col("t_wall_us").alias("at"), "place")).over(
        by_queue
    )
    return granted.withColumn("before", before).join(F.broadcast(apart), [*SCOPE, "group"], "left")


def work(recording: Recording) -> DataFrame:
    """Return one row per handler start of a consumer that locks its queues, and per delivery to such a pull consumer:
    the state of the lock then, and at the handler's `end`; `losses` counts how often it was lost so far.

    Ordered by the sequence numbers of one recorder, which are the order of events within its process."""
    is_locking = "kind in ('lock', 'unlock') and phase is not null"
    is_working = (
        "kind in ('handle.start', 'handle.end') and role = 'push' or kind = 'deliver' and role = 'pull'"
    )
    rows = recording.events.where(
        f"client_id is not null and queue is not null and ({is_locking} or {is_working})"
    )
    whose = ("recorder", "boot", "client_id", "epoch", *_QUEUE)
    by_queue = Window.partitionBy(*whose).orderBy("seq")
    so_far = by_queue.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = by_queue.rowsBetween(Window.unboundedPreceding, -1)
    message = Window.partitionBy(*whose, "message_id", "offset")
    run = Window.partitionBy(*whose, "message_id", "offset", "attempt").orderBy("seq")
    is_granted = F.expr(_GRANTED)
    answer = F.struct(
        is_granted.alias("is_held"), (F.col("t_wall_us") + LIVES_US).alias("until"), place().alias("place")
    )
    lock_state = F.when(is_granted | F.expr(_LOST), answer)
    with_lock = rows.withColumns(
        {
            "lock": F.last(lock_state, ignorenulls=True).over(so_far),
            "was": F.last(lock_state, ignorenulls=True).over(before),
            "granted_at": F.last(F.when(is_granted, F.col("t_wall_us")), ignorenulls=True).over(so_far),
            "takes_locks": F.max(is_granted).over(Window.partitionBy(*whose)),
            # The attempt grows with each local run; above 1 from the start, it is a retry, from another queue.
            "first_attempt": F.min("attempt").over(message),
            "place": place(),
        }
    )
    # A grant after the one before had expired implies a loss without an event.
    lapsed = is_granted & F.coalesce(F.col("was.is_held") & (F.col("was.until") < called()), F.lit(False))
    counted = with_lock.withColumn("losses", F.count_if(F.expr(_LOST) | lapsed).over(so_far))
    ends = F.when(F.col("kind") == "handle.end", F.struct("place", "lock", "losses"))
    end = F.first(ends, ignorenulls=True).over(run.rowsBetween(1, Window.unboundedFollowing))
    return (
        counted.withColumn("end", end)
        .where("takes_locks and first_attempt <= 1 and kind in ('handle.start', 'deliver')")
        .select("lock", "granted_at", "losses", "end", "place", scope())
    )


GRANTS = Frame("grants", grants, ("lock",))
WORK = Frame("locked work", work, ("lock",))
