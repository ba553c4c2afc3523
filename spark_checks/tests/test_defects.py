"""What once changed verdicts and must not: many events, many counts, and a clock that is off."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from aiorocketmq_audit.audit import audit
from aiorocketmq_audit.judgement import EXEMPTED
from aiorocketmq_audit.verdicts import Verdict
from pyspark.sql import SparkSession

from spark_checks.tests.bench import read
from spark_checks.tests.histories import SECOND, START, History
from spark_checks.tests.judging import found

pytestmark = pytest.mark.spark

Record = Callable[..., Path]

STOPS, GROUPS = 12_000, 21_000


def crashed(case: str) -> History:
    """A client crashed and its message went on, which is allowed; another one did not crash."""
    history = History(case)
    history.config(ordered=False, max_attempts=17)
    for message, client in (("/0", "c1"), ("/1", "c2")):
        history.deliver(message, 10, client_id=client)
        history.settle("ack", history.deliver(message, 20, client_id="c3", attempt=2), 21)
    history.note("client.crash", 15, client_id="c1")
    return history


def test_neither_many_exemptions_nor_many_counts_change_a_verdict(
    spark: SparkSession, tmp_path: Path
) -> None:
    few, stops, groups = (crashed(case) for case in ("few", "stops", "groups"))
    for number in range(STOPS):
        stops.note("client.stop", 14 + number / 1e5, client_id=f"unrelated-{number}")
    for number in range(GROUPS):
        groups.deliver(f"/{number + 2}", 14, group=f"group-{number}")
    rows = [row for history in (few, stops, groups) for row in history.end().rows]
    findings = found(*read(spark, tmp_path, rows), ["double delivery"])
    by_case = {
        case: {
            (each.invariant, each.verdict, each.exemption, each.seq)
            for each in findings
            if each.recorder == case
        }
        for case in ("r1few", "r1stops", "r1groups")
    }
    assert by_case["r1few"] == by_case["r1stops"] == by_case["r1groups"]
    assert {each[:3] for each in by_case["r1few"]} == {
        ("INV-EXCL", EXEMPTED, "owner gone"),
        ("INV-EXCL", "broken", None),
    }


def test_ordered_consumers_whose_clocks_are_off_make_nothing_broken(
    record: Record, spark: SparkSession
) -> None:
    """By the clocks as they are, the second message seems to be delivered before the first one."""
    histories = []
    for apart_s in (-0.2, 0.2):
        for offset, at in ((0, 10.0), (1, 10.1)):
            is_off = offset == (apart_s < 0)
            off = apart_s if is_off else 0
            history = History(str(apart_s), recorder="wrong" if is_off else "right")
            history.config(ordered=True, max_attempts=17)
            # The server says when it handed it out, in the middle of the call.
            delivery = history.deliver(
                f"x/{offset}",
                at + off,
                call=at + off - 0.004,
                client_id=f"c{offset}",
                server_deliver_us=START + round((at - 0.002) * SECOND),
            )
            history.settle("ack", delivery, at + off + 0.01)
            histories.append(history.end())
    result = audit([str(record(*histories))], checks=["ordering"], spark=spark)
    (check,) = result.checks
    assert (result.verdict, check.tally.broken, check.tally.judged) == (Verdict.UNKNOWN, 0, 4)
    assert [sentence.split(" by ")[0] for sentence in result.gates.clocks] == [
        f"the clock of recorder wrong{apart_s} differs from the server's" for apart_s in (-0.2, 0.2)
    ]
