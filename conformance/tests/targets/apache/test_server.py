"""A real Apache server: started, used, ended."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from aiorocketmq.admin import Admin, TopicType
from aiorocketmq_conformance.targets.apache.jars import cache_directory
from aiorocketmq_conformance.targets.apache.server import ApacheServer
from aiorocketmq_conformance.targets.apache.unavailable import ApacheUnavailableError
from aiorocketmq_conformance.targets.interface import TargetUnavailableError
from aiorocketmq_conformance.targets.readiness import STARTING, wait_until_ready

posix = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for Java is a shell script")


async def is_listening(endpoint: str) -> bool:
    host, _, port = endpoint.rpartition(":")
    try:
        _, writer = await asyncio.open_connection(host, int(port))
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


@pytest.mark.real
async def test_a_server_serves_both_wires_and_is_gone_afterwards() -> None:
    async with ApacheServer("5.5.0") as server:
        await wait_until_ready(server.grpc, patience=STARTING)
        async with Admin(f"namesrv://{server.namesrv}") as admin:
            await admin.create_topic("orders", type=TopicType.FIFO, queues=3)
            (queues,) = (await admin.route("orders")).queues
            assert (queues.readable, queues.writable, queues.address) == (3, 3, server.broker)
            await admin.create_group("billing", ordered=True)
            assert "billing" in await admin.groups()
        endpoints = [server.grpc, server.namesrv, server.broker]
        assert [await is_listening(endpoint) for endpoint in endpoints] == [True] * 3
    assert [await is_listening(endpoint) for endpoint in endpoints] == [False] * 3
    with pytest.raises(TargetUnavailableError):
        await wait_until_ready(server.grpc)


@pytest.mark.real
async def test_a_restarted_broker_keeps_its_addresses_and_its_store() -> None:
    async with ApacheServer("5.5.0") as server, Admin(f"namesrv://{server.namesrv}") as admin:
        await admin.create_group("billing")
        before = (server.grpc, server.namesrv, server.broker)
        await server.restart()
        assert (server.grpc, server.namesrv, server.broker) == before
        await wait_until_ready(server.grpc, patience=STARTING)
        assert "billing" in await admin.groups()


@posix
@pytest.mark.real
async def test_a_killed_broker_restarts_with_its_store() -> None:
    async with ApacheServer("5.5.0") as server, Admin(f"namesrv://{server.namesrv}") as admin:
        await admin.create_group("billing")
        await server.kill()
        await server.start()
        await wait_until_ready(server.grpc, patience=STARTING)
        assert "billing" in await admin.groups()


@pytest.mark.real
async def test_a_wrong_port_and_a_dead_one_differ() -> None:
    async with ApacheServer("5.5.0") as server:
        with pytest.raises(TargetUnavailableError, match="no RocketMQ 5 proxy answers"):
            await wait_until_ready(server.namesrv)


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], object]:
    """Make a program called java that does what the text given says; jars are there already."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    cache_directory().joinpath("5.5.0").mkdir(parents=True)
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.touch(mode=0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    return program.write_text


@posix
async def test_a_process_that_exits_early_is_reported_with_its_output(java: Callable[[str], object]) -> None:
    java("#!/bin/sh\necho 'Address already in use'\nexit 1\n")
    with pytest.raises(
        ApacheUnavailableError,
        match=r"5.5.0: the namesrv exited before it was ready; last output: Address already in use",
    ):
        async with ApacheServer("5.5.0"):
            raise AssertionError("entered")


@posix
async def test_a_process_that_never_gets_ready_is_ended(
    java: Callable[[str], object], tmp_path: Path
) -> None:
    java("#!/bin/sh\necho waiting\nexec sleep 600\n")
    home = tmp_path / "home"
    with pytest.raises(ApacheUnavailableError, match=r"was not ready within 0\.3 s; last output"):
        async with ApacheServer("5.5.0", start_timeout=0.3, directory=home):
            raise AssertionError("entered")


@posix
async def test_a_second_process_that_fails_ends_the_first(
    java: Callable[[str], object], tmp_path: Path
) -> None:
    java(
        '#!/bin/sh\ncase "$*" in *NamesrvStartup*) echo "boot success"; exec sleep 600;; esac\necho broken; exit 3\n'
    )
    with pytest.raises(ApacheUnavailableError, match=r"the proxy exited.*broken"):
        async with asyncio.timeout(20), ApacheServer("5.5.0", directory=tmp_path / "home"):
            raise AssertionError("entered")


@posix
async def test_a_program_that_exits_at_start_is_restarted(
    java: Callable[[str], object], tmp_path: Path
) -> None:
    tried = tmp_path / "tried"
    third = f'[ "$(cat {tried} 2>/dev/null | wc -l)" = 2 ] && echo stays && exec sleep 600'
    java(f"#!/bin/sh\n{third}\necho x >> {tried}\nexit 3\n")
    with pytest.raises(ApacheUnavailableError, match=r"was not ready within 3 s; last output: .*stays"):
        async with ApacheServer("5.5.0", start_timeout=3.0, directory=tmp_path / "home"):
            raise AssertionError("entered")
