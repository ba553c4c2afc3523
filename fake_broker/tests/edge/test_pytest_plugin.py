"""The fixture `rocketmq`, in pytest runs of their own: anyio's plugin, pytest-asyncio in both modes, and neither."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest_plugins = ["pytester"]

TESTS = """
    import pytest
    from aiorocketmq_fake import FakeBroker

    {mark}
    async def test_a_fresh_broker(rocketmq: FakeBroker):
        assert rocketmq.clock.is_manual
        await rocketmq.create_topic("t")
        await rocketmq.clock.advance(hours=2)

    {mark}
    async def test_another_fresh_broker(rocketmq: FakeBroker):
        assert rocketmq.topics() == ()

    {mark}
    @pytest.mark.rocketmq(clock="real", profile="apache-5.5")
    async def test_a_chosen_broker(rocketmq: FakeBroker):
        assert not rocketmq.clock.is_manual
        assert rocketmq.profile.name == "apache-5.5"

    {mark}
    @pytest.mark.parametrize("rocketmq_options", [{{"clock": "real"}}, {{"clock": "manual"}}], indirect=True)
    async def test_several_brokers(rocketmq: FakeBroker, rocketmq_options):
        assert rocketmq.clock.is_manual == (rocketmq_options["clock"] == "manual")
"""
BACKEND = """
    @pytest.fixture
    def anyio_backend():
        return {backend!r}
"""


@pytest.fixture
def run(pytester: pytest.Pytester) -> Callable[..., pytest.RunResult]:
    """Run tests with the plugin in a process of its own, warnings as errors."""

    def run_tests(source: str, *options: str, ini: str = "") -> pytest.RunResult:
        pytester.makeini(f"[pytest]\nfilterwarnings = error\n{ini}")
        pytester.makeconftest("pytest_plugins = ['aiorocketmq_fake.pytest_plugin']")
        pytester.makepyfile(source)
        return pytester.runpytest_subprocess("--strict-markers", *options)

    return run_tests


ASYNCIO = "asyncio_mode = {mode}\nasyncio_default_fixture_loop_scope = function\n"


def test_it_works_with_anyio(run: Callable[..., pytest.RunResult]) -> None:
    source = TESTS.format(mark="@pytest.mark.anyio") + BACKEND.format(backend="asyncio")
    run(source, "-p", "no:asyncio").assert_outcomes(passed=5)


def test_it_works_with_anyio_in_auto_mode(run: Callable[..., pytest.RunResult]) -> None:
    source = TESTS.format(mark="") + BACKEND.format(backend="asyncio")
    run(source, "-p", "no:asyncio", ini="anyio_mode = auto\n").assert_outcomes(passed=5)


def test_it_works_with_pytest_asyncio_in_strict_mode(run: Callable[..., pytest.RunResult]) -> None:
    run(TESTS.format(mark="@pytest.mark.asyncio"), ini=ASYNCIO.format(mode="strict")).assert_outcomes(
        passed=5
    )


def test_it_works_with_pytest_asyncio_in_auto_mode(run: Callable[..., pytest.RunResult]) -> None:
    run(TESTS.format(mark=""), ini=ASYNCIO.format(mode="auto")).assert_outcomes(passed=5)


def test_it_works_with_anyio_beside_pytest_asyncio(run: Callable[..., pytest.RunResult]) -> None:
    source = TESTS.format(mark="@pytest.mark.anyio") + BACKEND.format(backend="asyncio")
    run(source, ini=ASYNCIO.format(mode="strict")).assert_outcomes(passed=5)


def test_it_can_be_opted_into_on_the_command_line(pytester: pytest.Pytester) -> None:
    pytester.makeini(f"[pytest]\nfilterwarnings = error\n{ASYNCIO.format(mode='auto')}")
    pytester.makepyfile(TESTS.format(mark=""))
    pytester.runpytest_subprocess("-p", "aiorocketmq_fake.pytest_plugin").assert_outcomes(passed=5)


def test_without_opting_in_there_is_no_such_fixture(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(rocketmq): pass")
    result = pytester.runpytest_subprocess("-p", "no:asyncio")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*fixture 'rocketmq' not found*"])


def test_a_synchronous_test_gets_a_remedy(run: Callable[..., pytest.RunResult]) -> None:
    result = run("def test_it(rocketmq): pass", "-p", "no:asyncio")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the fixture rocketmq serves asynchronous tests*"])


def test_a_test_on_trio_gets_a_remedy(run: Callable[..., pytest.RunResult]) -> None:
    source = TESTS.format(mark="@pytest.mark.anyio") + BACKEND.format(backend="trio")
    result = run(source, "-p", "no:asyncio")
    result.assert_outcomes(errors=5)
    result.stdout.fnmatch_lines(["*needs asyncio*"])
