"""How the outcome of a case becomes its verdict, and how a run continues or ends."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest
from aiorocketmq_conformance.case import Case, Level
from aiorocketmq_conformance.deviations import Deviation
from aiorocketmq_conformance.results import CaseResult
from aiorocketmq_conformance.runner import Run, judge
from aiorocketmq_conformance.target import Target
from aiorocketmq_conformance.targets.declarations import DECLARATIONS
from aiorocketmq_conformance.targets.interface import BrokerUnderTest
from aiorocketmq_conformance.verdicts import Inconclusive, NotApplicable, Verdict

MakeCase = Callable[..., Case]
KNOWN = Deviation("send.one", reason="it is slow", source="page 1")


class Broker(BrokerUnderTest, Protocol):
    places: dict[str, str]
    seconds: float
    opened: list[str]
    closed: list[str]


async def result_of(broker: Broker, case: Case, **options: object) -> CaseResult:
    (result,) = (await Run([case], broker, **options).finish()).results  # type: ignore[arg-type]
    return result


def raising(error: BaseException) -> Callable[[Target], Awaitable[None]]:
    async def run(target: Target) -> None:
        raise error

    return run


async def holds(target: Target) -> None:
    target.note("margin", 0.25)


@pytest.mark.parametrize(
    ("error", "verdict", "detail"),
    [
        (AssertionError("3 of 4 came"), Verdict.FAIL, "3 of 4 came"),
        (AssertionError(), Verdict.FAIL, "assertion without a message"),
        (ExceptionGroup("g", [AssertionError("a"), AssertionError("b")]), Verdict.FAIL, "a; b"),
        (ExceptionGroup("g", [AssertionError("a"), KeyError("b")]), Verdict.ERROR, "a; KeyError: 'b'"),
        (Inconclusive("no sentinel"), Verdict.INCONCLUSIVE, "no sentinel"),
        (NotApplicable("no topics"), Verdict.NOT_APPLICABLE, "no topics"),
        (KeyError("x"), Verdict.ERROR, "KeyError: 'x'"),
        (TimeoutError("a wait of its own"), Verdict.ERROR, "TimeoutError: a wait of its own"),
    ],
)
async def test_what_a_case_raises_decides_its_verdict(
    broker: Broker, make_case: MakeCase, error: BaseException, verdict: Verdict, detail: str
) -> None:
    result = await result_of(broker, make_case(raising(error)))
    assert (result.verdict, result.detail) == (verdict, detail)


async def test_an_assertion_without_message_is_shown_as_its_code(
    broker: Broker, make_case: MakeCase, tmp_path: Path
) -> None:
    module = tmp_path / "cases_of_the_test.py"
    module.write_text("async def run(target):\n    assert target is None\n", "utf-8")
    spec = importlib.util.spec_from_file_location(module.stem, module)
    assert spec is not None
    assert spec.loader is not None
    imported = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(imported)
    result = await result_of(broker, make_case(imported.run))
    assert (result.verdict, result.detail) == (Verdict.FAIL, "assertion failed: target is None")


async def test_a_case_that_ends_quietly_passes_with_its_notes(broker: Broker, make_case: MakeCase) -> None:
    result = await result_of(broker, make_case(holds))
    assert (result.verdict, result.detail, result.notes) == (Verdict.PASS, "", {"margin": 0.25})
    assert broker.opened == broker.closed == ["send.one"]


async def test_a_failure_carries_the_line_that_failed(broker: Broker, make_case: MakeCase) -> None:
    result = await result_of(broker, make_case(raising(AssertionError("x"))))
    assert "test_runner.py" in result.evidence


async def test_a_case_that_does_not_end_is_cancelled(broker: Broker, make_case: MakeCase) -> None:
    ended: list[str] = []

    async def hang(target: Target) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")

    broker.seconds = 0.01
    result = await result_of(broker, make_case(hang))
    assert (result.verdict, result.detail) == (Verdict.ERROR, "the case did not end within 0.01 s")
    assert ended == ["ended"]


async def test_an_unfinished_call_does_not_hide_a_failure(broker: Broker, make_case: MakeCase) -> None:
    async def fails(target: Target) -> None:
        target.clock.traffic.begin(waits_for_time=True)
        raise AssertionError("broken")

    result = await result_of(broker, make_case(fails))
    assert (result.verdict, result.detail) == (Verdict.FAIL, "broken")


async def test_a_case_that_leaves_a_call_unfinished_is_an_error(broker: Broker, make_case: MakeCase) -> None:
    async def begins(target: Target) -> None:
        target.clock.traffic.begin(waits_for_time=False)

    result = await result_of(broker, make_case(begins))
    assert result.detail == "the case left 1 calls unfinished"


@pytest.mark.parametrize("needs", [("@topic",), ("order.grain=group",)])
async def test_a_case_whose_needs_are_missing_is_not_opened(
    broker: Broker, make_case: MakeCase, needs: tuple[str, ...]
) -> None:
    result = await result_of(broker, make_case(holds, needs=needs))
    assert (result.verdict, result.detail) == (
        Verdict.NOT_APPLICABLE,
        f"the target does not declare {needs[0]}",
    )
    assert broker.opened == []


async def test_a_case_whose_needs_are_met_is_run(broker: Broker, make_case: MakeCase) -> None:
    result = await result_of(broker, make_case(holds, needs=("type.fifo", "order.grain=queue")))
    assert result.verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("seen", "level", "known", "verdict"),
    [
        (Verdict.PASS, Level.MUST, False, Verdict.PASS),
        (Verdict.PASS, Level.MUST, True, Verdict.XPASS),
        (Verdict.FAIL, Level.MUST, False, Verdict.FAIL),
        (Verdict.FAIL, Level.MUST, True, Verdict.XFAIL),
        (Verdict.ERROR, Level.MUST, True, Verdict.ERROR),
        (Verdict.INCONCLUSIVE, Level.MUST, True, Verdict.INCONCLUSIVE),
        (Verdict.NOT_APPLICABLE, Level.MUST, True, Verdict.NOT_APPLICABLE),
        (Verdict.FAIL, Level.INFORMATIONAL, False, Verdict.INCONCLUSIVE),
        (Verdict.PASS, Level.INFORMATIONAL, False, Verdict.PASS),
        (Verdict.FAIL, Level.SHOULD, False, Verdict.FAIL),
        (Verdict.FAIL, Level.EXTENSION, False, Verdict.FAIL),
    ],
)
def test_the_verdict_table(
    make_case: MakeCase, seen: Verdict, level: Level, known: bool, verdict: Verdict
) -> None:
    case, deviation = make_case(holds, level=level), KNOWN if known else None
    assert judge(case, seen, "detail", deviation, DECLARATIONS["apache-5.5"])[0] is verdict


@pytest.mark.parametrize(
    ("seen", "known", "verdict"),
    [
        (Verdict.PASS, False, Verdict.PASS),
        (Verdict.FAIL, False, Verdict.FAIL),
        (Verdict.FAIL, True, Verdict.XFAIL),
        (Verdict.PASS, True, Verdict.XPASS),
    ],
)
def test_what_answers_as_documented_is_judged_by_cases_for_information_too(
    make_case: MakeCase, seen: Verdict, known: bool, verdict: Verdict
) -> None:
    case, deviation = make_case(holds, level=Level.INFORMATIONAL), KNOWN if known else None
    assert judge(case, seen, "detail", deviation, DECLARATIONS["fake-documented"])[0] is verdict


async def test_a_known_deviation_has_its_reason_and_the_detail(broker: Broker, make_case: MakeCase) -> None:
    case = make_case(raising(AssertionError("took 9 s")))
    result = await result_of(broker, case, deviations={"send.one": KNOWN})
    assert (result.verdict, result.detail) == (Verdict.XFAIL, "known: it is slow (page 1); seen: took 9 s")


async def test_results_are_in_the_order_of_the_cases(broker: Broker, make_case: MakeCase) -> None:
    cases = [make_case(holds, f"send.n{n}", timeout=10 - n) for n in (3, 1, 2)]
    run = await Run(cases, broker, jobs=1).finish()
    assert [result.case.id for result in run.results] == ["send.n3", "send.n1", "send.n2"]
    assert broker.opened == ["send.n1", "send.n2", "send.n3"], "the longest wait begins first"


async def test_no_more_cases_run_at_once_than_allowed(broker: Broker, make_case: MakeCase) -> None:
    running, most = 0, 0

    async def count(target: Target) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    await Run([make_case(count, f"send.n{n}") for n in range(9)], broker, jobs=3).finish()
    assert most == 3


async def test_cases_that_restart_the_broker_run_together_when_all_others_have_ended(
    broker: Broker, make_case: MakeCase
) -> None:
    broker.declaration = replace(broker.declaration, capabilities=frozenset({"@restart"}))
    together = asyncio.Barrier(3)

    async def restarts(target: Target) -> None:
        await together.wait()

    cases = [make_case(restarts, f"send.r{n}", needs=("@restart",), timeout=99) for n in range(3)]
    run = await Run([*cases, make_case(holds)], broker, jobs=1).finish()
    assert broker.opened[0] == "send.one"
    assert {result.verdict for result in run.results} == {Verdict.PASS}


async def test_cases_at_different_places_run_concurrently(broker: Broker, make_case: MakeCase) -> None:
    broker.declaration = replace(broker.declaration, capabilities=frozenset({"@restart"}))
    broker.places = {"send.r": "restarted"}
    together = asyncio.Barrier(2)

    async def meets(target: Target) -> None:
        await together.wait()

    cases = [make_case(meets, "send.r", needs=("@restart",)), make_case(meets)]
    run = await Run(cases, broker, jobs=1).finish()
    assert {result.verdict for result in run.results} == {Verdict.PASS}


async def test_the_reason_of_an_unmet_need_is_reported(broker: Broker, make_case: MakeCase) -> None:
    broker.declaration = replace(broker.declaration, absences={"pull": "it answers UNIMPLEMENTED"})
    result = await result_of(broker, make_case(holds, needs=("pull", "@lag")))
    assert result.detail == "the target does not declare pull, @lag: it answers UNIMPLEMENTED"


async def test_a_stopped_run_has_partial_results(broker: Broker, make_case: MakeCase) -> None:
    async def stop(target: Target) -> None:
        run.stop()
        await asyncio.Event().wait()

    cases = [
        make_case(holds, "send.a", timeout=3),
        make_case(stop, "send.b", timeout=2),
        make_case(holds, "send.c"),
    ]
    cases[2] = make_case(holds, "send.c", timeout=1)
    run = Run(cases, broker, jobs=1)
    result = await run.finish()
    assert [each.verdict for each in result.results] == [Verdict.PASS, Verdict.NOT_RUN, Verdict.NOT_RUN]
    assert broker.opened == broker.closed == ["send.a", "send.b"]
    assert result.exit_code == 3


async def test_a_budget_ends_the_run(broker: Broker, make_case: MakeCase) -> None:
    async def hang(target: Target) -> None:
        await asyncio.Event().wait()

    result = await Run([make_case(hang)], broker).finish(budget=0.01)
    assert [each.verdict for each in result.results] == [Verdict.NOT_RUN]


async def test_every_result_is_reported_at_once(broker: Broker, make_case: MakeCase) -> None:
    reported: list[CaseResult] = []
    await Run([make_case(holds), make_case(holds, "send.two")], broker, on_result=reported.append).finish()
    assert {result.case.id for result in reported} == {"send.one", "send.two"}


async def test_an_exception_of_one_case_does_not_end_the_others(
    broker: Broker, make_case: MakeCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_ = broker.open

    def open_or_break(case: Case) -> object:
        if case.id == "send.one":
            raise OSError("no port")
        return open_(case)

    monkeypatch.setattr(broker, "open", open_or_break)
    run = await Run([make_case(holds), make_case(holds, "send.two")], broker).finish()
    assert [(each.verdict, each.detail) for each in run.results] == [
        (Verdict.ERROR, "OSError: no port"),
        (Verdict.PASS, ""),
    ]


async def test_a_cancelled_run_ends_its_cases(broker: Broker, make_case: MakeCase) -> None:
    started = asyncio.Event()

    async def hang(target: Target) -> None:
        started.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(Run([make_case(hang)], broker).finish())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert broker.closed == ["send.one"]
