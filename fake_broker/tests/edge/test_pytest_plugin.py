"""The plugin, in pytest runs of their own: synchronous tests, anyio's plugin, pytest-asyncio in all modes, and none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest_plugins = ["pytester"]

TESTS = """
    import pytest
    from aiorocketmq import Message, Producer
    from aiorocketmq_fake import FakeBroker

    {mark}
    async def test_a_fresh_broker(rocketmq: FakeBroker):
        assert rocketmq.clock.is_manual
        await rocketmq.create_topic("t")
        async with Producer(rocketmq.endpoint) as producer:
            await producer.send(Message("t", b"1"))
        assert len(rocketmq.messages("t")) == 1
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

    def test_a_synchronous_test(rocketmq: FakeBroker):
        call = rocketmq.portal.call
        call(rocketmq.create_topic, "t")
        with rocketmq.portal.wrap_async_context_manager(Producer(rocketmq.endpoint)) as producer:
            call(producer.send, Message("t", b"1"))
        assert len(rocketmq.messages("t")) == 1
"""
PASSED = 6
BACKEND = """
    @pytest.fixture
    def anyio_backend():
        return {backend!r}
"""


@pytest.fixture
def run(pytester: pytest.Pytester) -> Callable[..., pytest.RunResult]:
    """Run tests in a process of its own, as a user does, warnings as errors."""

    def run_tests(source: str, *options: str, ini: str = "") -> pytest.RunResult:
        pytester.makeini(f"[pytest]\nfilterwarnings = error\n{ini}")
        pytester.makepyfile(source)
        return pytester.runpytest_subprocess("--strict-markers", *options)

    return run_tests


def asyncio_mode(mode: str) -> str:
    return f"asyncio_mode = {mode}\nasyncio_default_fixture_loop_scope = function\n"


def test_it_works_with_anyio(run: Callable[..., pytest.RunResult]) -> None:
    source = TESTS.format(mark="@pytest.mark.anyio") + BACKEND.format(backend="asyncio")
    run(source, "-p", "no:asyncio").assert_outcomes(passed=PASSED)


def test_it_works_with_anyio_in_auto_mode(run: Callable[..., pytest.RunResult]) -> None:
    source = TESTS.format(mark="") + BACKEND.format(backend="asyncio")
    run(source, "-p", "no:asyncio", ini="anyio_mode = auto\n").assert_outcomes(passed=PASSED)


def test_it_works_with_pytest_asyncio_in_strict_mode(run: Callable[..., pytest.RunResult]) -> None:
    source = TESTS.format(mark="@pytest.mark.asyncio")
    run(source, ini=asyncio_mode("strict")).assert_outcomes(passed=PASSED)


def test_it_works_with_pytest_asyncio_in_auto_mode(run: Callable[..., pytest.RunResult]) -> None:
    run(TESTS.format(mark=""), ini=asyncio_mode("auto")).assert_outcomes(passed=PASSED)


def test_it_works_on_event_loops_of_each_scope_of_pytest_asyncio(
    run: Callable[..., pytest.RunResult],
) -> None:
    source = """
        import pytest
        from aiorocketmq import Message, Producer

        class TestScopes:
            @pytest.mark.parametrize("number", [1, 2])
            @pytest.mark.asyncio(loop_scope={scope!r})
            async def test_{scope}(self, rocketmq, number):
                await rocketmq.create_topic("t")
                async with Producer(rocketmq.endpoint) as producer:
                    await producer.send(Message("t", b"1"))
    """
    scopes = ("function", "class", "module", "package", "session")
    source = "".join(source.replace("TestScopes", f"Test{scope}").format(scope=scope) for scope in scopes)
    run(source, ini=asyncio_mode("strict")).assert_outcomes(passed=10)


def test_it_works_on_the_default_event_loop_scope_of_pytest_asyncio(
    run: Callable[..., pytest.RunResult],
) -> None:
    ini = f"{asyncio_mode('auto')}asyncio_default_test_loop_scope = session\n"
    run(TESTS.format(mark=""), ini=ini).assert_outcomes(passed=PASSED)


def test_it_works_with_anyio_beside_pytest_asyncio(run: Callable[..., pytest.RunResult]) -> None:
    source = TESTS.format(mark="@pytest.mark.anyio") + BACKEND.format(backend="asyncio")
    run(source, ini=asyncio_mode("strict")).assert_outcomes(passed=PASSED)


@pytest.mark.parametrize("with_autoload", [False, True])
def test_it_can_be_named_as_a_module(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, with_autoload: bool
) -> None:
    if not with_autoload:
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeconftest("pytest_plugins = ['aiorocketmq_fake.pytest_plugin']")
    pytester.makepyfile("def test_it(rocketmq): assert rocketmq.is_running")
    pytester.runpytest_subprocess("-p", "aiorocketmq_fake.pytest_plugin").assert_outcomes(passed=1)


def test_unused_it_imports_neither_grpc_nor_a_broker(run: Callable[..., pytest.RunResult]) -> None:
    """These modules took 1.7 ms, by `time.process_time()` around each import in a fresh process."""
    source = """
        import sys

        def test_it():
            ours = {name for name in sys.modules if name.startswith("aiorocketmq")}
            assert ours == {
                "aiorocketmq",
                "aiorocketmq._lazy_exports",
                "aiorocketmq_fake",
                "aiorocketmq_fake.pytest_asyncio_fixture",
                "aiorocketmq_fake.pytest_plugin",
            }
            assert not {"grpc", "google.protobuf", "anyio.from_thread"} & sys.modules.keys()
    """
    run(source, "-p", "no:anyio", ini=asyncio_mode("auto")).assert_outcomes(passed=1)


def test_an_asynchronous_test_that_nothing_runs_gets_a_remedy(run: Callable[..., pytest.RunResult]) -> None:
    result = run(TESTS.format(mark=""), "-p", "no:asyncio", "-p", "no:anyio")
    result.assert_outcomes(passed=1, errors=PASSED - 1)
    result.stdout.fnmatch_lines(["*mark it with `@pytest.mark.anyio` or*"])


def test_a_test_on_trio_gets_a_remedy(run: Callable[..., pytest.RunResult]) -> None:
    source = TESTS.format(mark="@pytest.mark.anyio") + BACKEND.format(backend="trio")
    result = run(source, "-p", "no:asyncio")
    result.assert_outcomes(passed=1, errors=PASSED - 1)
    result.stdout.fnmatch_lines(
        ["the fixture rocketmq needs asyncio, this test runs on trio: let the fixture anyio_backend return *"]
    )
