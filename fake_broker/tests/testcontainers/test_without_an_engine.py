"""What needs no container engine: files of a server, invalid values, a sentence for each thing that is missing."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import PurePosixPath

import pytest
from aiorocketmq_fake.testcontainers import ContainerError, FakeRocketMQContainer, RocketMQContainer
from aiorocketmq_fake.testcontainers.apache import Ports, configuration, programs

pytest_plugins = ["pytester"]

HOME = PurePosixPath("/tmp/server")
PORTS = Ports(namesrv=20000, broker=20003, grpc=20005, remoting=20006)
NO_ENGINE = "unix:///nowhere/docker.sock"
# Docker's library leaves the socket open on which it found no engine.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def _no_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("DOCKER_HOST", NO_ENGINE)
    yield
    # Its warning belongs to this test.
    gc.collect()


def test_routes_name_the_given_host_and_the_published_ports() -> None:
    files = configuration(HOME, PORTS, host="10.0.0.7")
    broker = dict(line.split("=", 1) for line in files["conf/broker.conf"].splitlines())
    assert (broker["brokerIP1"], broker["listenPort"]) == ("10.0.0.7", "20003")
    # Inside the container, the name server is next to its broker.
    assert broker["namesrvAddr"] == "127.0.0.1:20000"
    assert json.loads(files["conf/proxy.json"])["grpcServerPort"] == 20005


def test_settings_override_those_of_every_server() -> None:
    files = configuration(
        HOME, PORTS, settings={"flushDiskType": "SYNC_FLUSH"}, proxy_settings={"useDelayLevel": True}
    )
    assert "flushDiskType=SYNC_FLUSH\n" in files["conf/broker.conf"]
    assert json.loads(files["conf/proxy.json"])["useDelayLevel"] is True


def test_options_that_java_8_does_not_know_are_not_on_the_command_line() -> None:
    """Images before 5.4 have Java 8, which ends at an unknown option and ignores the variable."""
    for program in programs("java", HOME / "lib", HOME, PORTS, mode="local"):
        assert not [word for word in program.command if word.startswith("--add")]
        assert "--add-exports" in program.environment["JDK_JAVA_OPTIONS"]


@pytest.mark.parametrize("kind", [RocketMQContainer, FakeRocketMQContainer])
def test_a_missing_engine_is_one_sentence(kind: type[RocketMQContainer | FakeRocketMQContainer]) -> None:
    with pytest.raises(
        ContainerError, match=r"^no container engine answers \(.*\): start Docker, or let DOCKER_HOST"
    ):
        kind("apache/rocketmq:5.5.0")


def test_a_port_out_of_range_is_refused_with_its_name() -> None:
    with pytest.raises(ValueError, match=r"the port grpc must be 0 to 65535 .* got 65536"):
        RocketMQContainer(grpc_port=65_536)


def test_a_missing_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['testcontainers.core.config'] = None; "
        "import aiorocketmq_fake.testcontainers.container"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "run pip install 'aiorocketmq[testcontainers]'" in ended.stderr.splitlines()[-1]


def test_the_names_are_imported_on_first_use() -> None:
    """The suite's Apache targets use files of this package, and do not need the extra."""
    program = (
        "import sys, aiorocketmq_fake.testcontainers.apache; "
        "sys.exit('docker' in sys.modules or 'testcontainers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_fixture_without_an_engine_fails_in_one_sentence(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("pytest_plugins = ['aiorocketmq_fake.testcontainers.pytest_plugin']")
    pytester.makepyfile("def test_server(rocketmq_container): raise AssertionError('not reached')")
    ended = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    ended.assert_outcomes(errors=1)
    ended.stdout.fnmatch_lines(
        ["no container engine answers (*): start Docker, or let DOCKER_HOST name its socket"]
    )
