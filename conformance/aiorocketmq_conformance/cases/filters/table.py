"""SQL expressions, each judged by the messages that it selects: the corners of the language, as servers read it."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from aiorocketmq._core.settings import FilterText
from aiorocketmq._remoting.codes import ResponseCode

from aiorocketmq_conformance.case import EXTENSION, case
from aiorocketmq_conformance.cases.shared.queues import REMOTING, RemotingReader, over_remoting
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.probe.remoting_answers import response_text

REFUSED = "refused"
BORN = 1.7e9
LOCAL = "__BORNHOST"
"""A property that depends on where the client is."""


def _table() -> dict[str, Any]:
    text = files("aiorocketmq_conformance.cases.filters").joinpath("sql_table.json").read_text("utf-8")
    table: dict[str, Any] = json.loads(text)
    return table


@case(
    "filter.sql-table",
    rules=("R5.25",),
    level=EXTENSION,
    needs=("filter.sql", *REMOTING),
    timeout=300.0,
)
async def sql_table(fixture: Fixture) -> None:
    """Each of hundreds of expressions selects what it selects on servers of Apache, or is refused as there:
    precedence, absent and malformed values, signs, numbers of 32 and 64 bits, comments, and what follows an
    expression; where the documents say otherwise, only on servers that are declared to read as Apache's do."""
    reader, table = await over_remoting(fixture), _table()
    names = {}
    for name, fields in table["messages"].items():
        (sent,) = await fixture.send(
            reader.topic,
            name,
            tag=fields["tag"] or None,
            keys=fields["keys"],
            properties=fields["properties"],
            born_at=BORN,
        )
        names[name] = sent.id
    await reader.wait_visible(len(names))
    own = {"'m1'": f"'{names['m1']}'", "'sql'": f"'{reader.topic}'"}
    left_out = () if fixture.numbers["sql.reads"] == "as Apache" else table["as_apache"]
    wrong = []
    for text, expected in table["matches"].items():
        if LOCAL in text or text in left_out:
            continue
        for placeholder, value in own.items():
            text = text.replace(placeholder, value)
        if (found := await _selected(reader, text)) != expected:
            wrong.append(f"{text!r} selects {found!r}, and not {expected!r}")
    assert not wrong, f"{len(wrong)} expressions: {'; '.join(wrong[:20])}"


async def _selected(reader: RemotingReader, text: str) -> str:
    """Return the bodies of the messages that an expression selects, or that it is refused."""
    filter_text = FilterText(text, is_sql=True)
    checked = await reader.probe.check(reader.group, reader.topic, filter_text)
    if checked.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED:
        return REFUSED
    assert checked.code == ResponseCode.SUCCESS, f"{text!r} was answered with {response_text(checked)}"
    pulled = await reader.probe.pull(reader.topic, reader.group, 0, filter_text=filter_text)
    return " ".join(record.body.decode() for record in pulled.records)
