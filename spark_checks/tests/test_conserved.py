"""INV-CONSERVE: what became of the sends is counted and printed, whatever the verdict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiorocketmq_audit.audit import audit
from aiorocketmq_audit.report import sentences
from aiorocketmq_audit.report.summary import summary
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_sends_are_conserved_and_those_that_only_a_delivery_confirms_are_recovered(
    new_history: type[Any], record: Callable[..., Path], spark: SparkSession
) -> None:
    history = new_history()
    for offset, phase in enumerate(("ok", "ok", "ok", "info", "info", "fail", "invoke")):
        for each in sorted({"invoke", phase}):
            history.send(f"/{offset}", offset, phase=each, op_id=str(offset))
    for offset in (0, 1, 3):
        for attempt in (1, 2):
            history.deliver(f"/{offset}", 40 * attempt + offset, attempt=attempt, body_sha="body")
    # The send of this one is not recorded.
    history.deliver("/9", 50)
    result = audit([str(record(history.end()))], checks=["origin"], spark=spark)
    assert result.gates.operations["send"] == {
        "attempted": 7,
        "ok": 3,
        "fail": 1,
        "info": 3,
        "unanswered": 1,
    }
    document = summary(result, {})
    deliveries = document["deliveries"]
    assert (deliveries["confirmed"], deliveries["recovered"]) == (2, 1)
    assert sentences.recording(document)[-1] == (
        "7 sends by all observers: 3 ok, 1 rejected, 3 of unknown outcome; delivered of them: 2 ok, 1 recovered."
    )
