"""Unknown servers, judged by the command as a user runs it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from aiorocketmq.wire import messages as pb
from aiorocketmq.wire.methods import METHODS, Method
from aiorocketmq_conformance.blocks import Blocks, Step
from aiorocketmq_conformance.case import Registry, case, load
from aiorocketmq_conformance.cases.shared.transactions import NEEDS, always, open_transactions
from aiorocketmq_conformance.fixture import Fixture
from aiorocketmq_conformance.runner import Run
from aiorocketmq_conformance.verdicts import Verdict
from aiorocketmq_fake import FakeBroker
from aiorocketmq_fake.core.broker import Broker
from aiorocketmq_fake.core.values.codes import TopicType
from aiorocketmq_fake.core.values.model import OutgoingMessage, SendOutcome, TopicConfig
from aiorocketmq_fake.core.values.profiles import PROFILES

from conformance.tests.mutants.catalogue import mutant
from conformance.tests.mutants.proof import BrokenFake

SERVICE = "apache.rocketmq.v2.MessagingService"


@dataclass(frozen=True)
class Judged:
    """What the command printed, its exit code, and its `result.json`."""

    exit_code: int
    output: str
    error: str
    run: dict[str, Any] = field(default_factory=dict)

    @property
    def verdicts(self) -> dict[str, str]:
        return {case["id"]: case["verdict"] for case in self.run["cases"]}


async def judge(endpoint: str, folder: Path, *arguments: str) -> Judged:
    """Run `aiorocketmq conformance run` on an address, in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from aiorocketmq.cli import main; main()", "conformance", "run"),
        "--target",
        endpoint,
        *("--report", str(folder / "report"), *arguments),
        env={**os.environ, "COLUMNS": "200"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(300):
            output, error = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    result = folder / "report" / "result.json"
    run = json.loads(result.read_text("utf-8"))["runs"][0] if result.exists() else {}
    return Judged(process.returncode or 0, output.decode(), error.decode(), run)


@asynccontextmanager
async def server_out_of_order(text: str) -> AsyncIterator[str]:
    """A server that answers every call with INTERNAL_SERVER_ERROR and `text`, and ends every telemetry stream so."""
    status = pb.Status(code=pb.Code.INTERNAL_SERVER_ERROR, message=text)

    def handler(method: Method) -> Any:  # Any: grpc's handlers have no public type
        async def unary(request: bytes, context: Any) -> bytes:
            return bytes(method.response(status=status).SerializeToString())

        async def stream(request: bytes, context: Any) -> AsyncIterator[bytes]:
            yield method.response(status=status).SerializeToString()

        if method.server_streaming and method.client_streaming:
            return grpc.stream_stream_rpc_method_handler(stream)
        if method.server_streaming:
            return grpc.unary_stream_rpc_method_handler(stream)
        return grpc.unary_unary_rpc_method_handler(unary)

    server = grpc.aio.server()
    handlers = {name: handler(method) for name, method in METHODS.items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


def creates_topics(queues: int) -> type[Broker]:
    """A core that creates a topic of so many queues with its first message."""

    class CreatesTopics(Broker):
        def send(
            self, messages: tuple[OutgoingMessage, ...], *, now: float, client_id: str = ""
        ) -> tuple[SendOutcome, ...]:
            names = {topic.config.name for topic in self.topics()}
            for name in {message.topic for message in messages} - names:
                self.create_topic(TopicConfig(name, TopicType.NORMAL, queues, queues), now=now)
            return super().send(messages, now=now, client_id=client_id)

    return CreatesTopics


async def test_a_server_that_answers_everything_with_an_error_is_not_judged_case_by_case(
    tmp_path: Path,
) -> None:
    async with server_out_of_order("no disk left") as endpoint:
        judged = await judge(
            endpoint, tmp_path, "--create-topics", "auto", "--select", "simple.*", "--level", "M"
        )
    reason = "probe of topic creation failed: settings were answered with INTERNAL_SERVER_ERROR: no disk left"
    assert judged.output.count(f"{reason}: cases that need it are not judged") == 1
    assert judged.exit_code == 3
    assert set(judged.verdicts.values()) == {"blocked", "n/a"}
    (cause,) = judged.run["causes"]
    assert cause["detail"] == reason
    assert judged.run["blocked"] == [reason]
    page = (tmp_path / "report" / "report.html").read_text("utf-8")
    assert "Failures of" in page
    assert page.count(f"<td>{reason}<small>") == 1


@pytest.mark.slow
async def test_a_refused_acknowledgement_blocks_what_needs_it_and_nothing_else(tmp_path: Path) -> None:
    blocked = {"simple.batch-cap", "reb.join-no-loss", "push.consume-10", "send.retry-keeps-id"}
    judged_all_the_same = {"send.receipt", "send.unknown-topic"}
    async with FakeBroker(control="127.0.0.1:0") as fake:
        fake.faults.refuse("AckMessage", "FORBIDDEN", "no\n::error::acks\x1b[31m")
        judged = await judge(
            fake.endpoint,
            tmp_path,
            *("--control", str(fake.control_endpoint), "--declared", "fake-documented"),
            *(word for name in blocked | judged_all_the_same for word in ("--select", name)),
        )
    assert judged.exit_code == 1
    assert {name for name, verdict in judged.verdicts.items() if verdict == "blocked"} == blocked
    (sentence,) = judged.run["blocked"]
    assert sentence == (
        "probe of acknowledgement failed: ack of unexpired handles was answered with FORBIDDEN: "
        "no ::error::acks\x1b[31m, entries []"
    )
    assert "cases that need it are not judged" in judged.output
    assert "    4 x probe of acknowledgement failed" in judged.output
    assert not judged.error, "such as tasks whose exceptions were never retrieved"
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]|^\s*::", judged.output, re.MULTILINE)


async def test_a_broker_without_a_name_server_is_judged(tmp_path: Path) -> None:
    async with FakeBroker(remoting_port=0) as fake:
        judged = await judge(
            fake.endpoint,
            tmp_path,
            *("--namesrv", f"broker://{fake.remoting_endpoint}", "--declared", "documented"),
            *("--select", "send.receipt"),
        )
    assert (judged.exit_code, judged.verdicts) == (0, {"send.receipt": "pass"}), judged.output + judged.error


@pytest.mark.parametrize("queues", [1, 8])
async def test_a_broker_that_creates_topics_at_first_use_is_judged(tmp_path: Path, queues: int) -> None:
    any_queues = {"reb.join-no-loss", "simple.many-topics"}
    one_queue = {"send.receipt", "filter.tag-or"}
    profile = replace(PROFILES["documented"], auto_create_groups=True)
    async with FakeBroker(profile=profile, core=creates_topics(queues)) as fake:
        judged = await judge(
            fake.endpoint,
            tmp_path,
            *("--create-topics", "auto", "--declared", "documented", "--select", "fifo.gap-ack"),
            *("--select", "send.unknown-topic"),
            *(word for name in any_queues | one_queue for word in ("--select", name)),
        )
    passed = any_queues | one_queue if queues == 1 else any_queues
    assert judged.exit_code == 0, judged.output
    assert {name for name, verdict in judged.verdicts.items() if verdict == "pass"} == passed
    assert {judged.verdicts[name] for name in judged.verdicts.keys() - passed} == {"n/a"}


async def test_missing_transaction_checks_are_waited_for_once() -> None:
    cases = load().select(["tx.check-*", "tx.born-time*", "tx.reply-lost", "tx.commit"])
    blocks = Blocks()
    async with BrokenFake(mutant("MU56")) as broker:
        run = await Run(cases, broker, blocks=blocks, jobs=1).finish()
    (failure,) = (result for result in run.results if result.verdict is Verdict.FAIL)
    blocked = [result for result in run.results if result.verdict is Verdict.BLOCKED]
    assert failure.detail == "0 checks within 126 s, not 1:"
    assert len(blocked) == len(cases) - 4, (
        "but for this, one not applicable, one over remoting, and tx.commit"
    )
    assert max(result.target_seconds for result in blocked) == 0.0
    assert run.blocked == ("in another case no check arrived for a transaction left open for 126 s",)


async def test_a_wait_for_a_check_ends_when_another_case_blocks_it() -> None:
    registry = Registry()

    @case("tx.waits", needs=NEEDS, timeout=2000.0, registry=registry)
    async def waits(fixture: Fixture) -> None:
        """It waits."""

        async def show() -> None:
            await fixture.clock.sleep(50.0)
            fixture.target.blocks.block(Step.CHECK, "none came elsewhere")

        tx = await open_transactions(fixture)
        checker = await tx.checker(always(None))
        await tx.prepare("m")
        fixture.background(show())
        await tx.within(1000.0, checker, 1, None)

    async with BrokenFake(mutant("MU56")) as broker:
        (result,) = (await Run(registry.select(), broker, blocks=Blocks()).finish()).results
    assert (result.verdict, result.detail) == (Verdict.BLOCKED, "none came elsewhere")
    assert 50.0 <= result.target_seconds < 100.0
