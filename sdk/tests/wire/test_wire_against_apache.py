"""Our contract says what the one inside Apache's published Python package says, and names what is newer."""

import fnmatch
import subprocess
from pathlib import Path

import pytest
from aiorocketmq.wire import messages as pb

pytestmark = pytest.mark.peer

SDK = Path(__file__).resolve().parents[2]

NEWER_ROWS = {
    "enum Code.INVALID_CLIENT_PROPERTIES": "the code that belongs to Settings.client_properties",
    "field Settings.client_properties": "in the public contract since 2026; no Apache server up to 5.5.0 reads it",
    "* Settings.ClientPropertiesEntry*": "the map behind Settings.client_properties",
}
NEWER_CONTROL_PLANE = "the Admin service grew from one call to sixteen in 2026, after the package was made"


def control_plane() -> set[str]:
    """Name what admin.proto declares, but for the call that it always had."""
    file = pb.POOL.FindFileByName("admin.proto")
    declared = {*file.message_types_by_name, *file.enum_types_by_name, *file.services_by_name}
    return declared - {"ChangeLogLevelRequest", "ChangeLogLevelResponse"}


def reason_for_being_newer(row: str) -> str | None:
    """Return why we have a row that Apache's package lacks, or nothing where no reason is known."""
    if row.partition(" ")[2].partition(".")[0] in control_plane():
        return NEWER_CONTROL_PLANE
    return next((why for pattern, why in NEWER_ROWS.items() if fnmatch.fnmatchcase(row, pattern)), None)


def unexplained(ours: dict[str, str], theirs: dict[str, str]) -> list[str]:
    """Name every row that is not the same on both sides and that nothing explains."""
    return [
        f"{row}: ours {ours.get(row, 'missing')}, theirs {theirs.get(row, 'missing')}"
        for row in sorted(ours.keys() | theirs.keys())
        if ours.get(row) != theirs.get(row) and (row in theirs or reason_for_being_newer(row) is None)
    ]


def test_every_name_number_type_label_oneof_and_streaming_kind_is_the_same(
    our_facts: dict[str, str], apache_facts: dict[str, str]
) -> None:
    assert len(apache_facts) > 300, "the dump of Apache's package lost rows"
    assert unexplained(our_facts, apache_facts) == []


def test_what_only_we_have_is_listed_with_its_reason(
    our_facts: dict[str, str], apache_facts: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    newer = our_facts.keys() - apache_facts.keys()
    reasons: dict[str, int] = {}
    for row in newer:
        reason = reason_for_being_newer(row)
        assert reason is not None, row
        reasons[reason] = reasons.get(reason, 0) + 1
    with capsys.disabled():
        print("\nnewer than Apache's package: " + "; ".join(f"{n} rows: {why}" for why, n in reasons.items()))


@pytest.mark.parametrize(
    ("row", "planted"),
    [
        ("field SendResultEntry.offset", "5 LABEL_OPTIONAL TYPE_INT64 - oneof=-"),
        ("field SendResultEntry.offset", "4 LABEL_OPTIONAL TYPE_INT32 - oneof=-"),
        ("field SendResultEntry.offset", "4 LABEL_REPEATED TYPE_INT64 - oneof=-"),
        (
            "field TelemetryCommand.settings",
            "2 LABEL_OPTIONAL TYPE_MESSAGE .apache.rocketmq.v2.UA oneof=command",
        ),
        (
            "field ReceiveMessageResponse.status",
            "1 LABEL_OPTIONAL TYPE_MESSAGE .apache.rocketmq.v2.Status oneof=-",
        ),
        ("enum Code.OK", "20001"),
        (
            "rpc MessagingService.ReceiveMessage",
            ".apache.rocketmq.v2.ReceiveMessageRequest -> .apache.rocketmq.v2.ReceiveMessageResponse",
        ),
        ("rpc MessagingService.SendMessage", None),
        ("message Message", None),
        ("field Settings.client_properties_of_mine", "10 LABEL_OPTIONAL TYPE_STRING - oneof=-"),
    ],
)
def test_a_planted_difference_is_found(
    our_facts: dict[str, str], apache_facts: dict[str, str], row: str, planted: str | None
) -> None:
    assert our_facts.get(row) != planted
    if planted is None:
        del our_facts[row]
    else:
        our_facts[row] = planted
    differences = unexplained(our_facts, apache_facts)
    assert [line.partition(":")[0] for line in differences] == [row]


def test_a_row_that_only_apache_has_is_found(our_facts: dict[str, str], apache_facts: dict[str, str]) -> None:
    theirs = {**apache_facts, "field Settings.from_tomorrow": "10 LABEL_OPTIONAL TYPE_STRING - oneof=-"}
    assert len(unexplained(our_facts, theirs)) == 1


APACHE = "from rocketmq.grpc_protocol import admin_pb2, definition_pb2, service_pb2"
OURS = "from aiorocketmq.wire import messages, methods"
EXCHANGE = """
theirs = service_pb2.SendMessageRequest(messages=[definition_pb2.Message(body=b"x")])
theirs.messages[0].system_properties.born_timestamp.GetCurrentTime()
ours = messages.SendMessageRequest.FromString(theirs.SerializeToString())
assert type(ours) is not type(theirs)
assert ours.messages[0].body == b"x"
assert ours.messages[0].system_properties.born_timestamp.seconds > 0
assert service_pb2.SendMessageRequest.FromString(ours.SerializeToString()) == theirs
"""


@pytest.mark.parametrize("first", [APACHE, OURS], ids=["apache-first", "ours-first"])
def test_both_contracts_live_in_one_process_in_either_import_order(apache_python: Path, first: str) -> None:
    second = OURS if first is APACHE else APACHE
    program = f"import sys; sys.path.insert(0, {str(SDK)!r})\n{first}\n{second}\n{EXCHANGE}"
    done = subprocess.run([apache_python, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
