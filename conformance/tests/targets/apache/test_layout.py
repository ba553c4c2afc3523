"""The files and command lines of an installation."""

from __future__ import annotations

import json
import random
import socket
from pathlib import Path

import pytest
from aiorocketmq_conformance.targets.apache.layout import free_ports, write_configuration
from aiorocketmq_conformance.targets.apache.server import ApacheServer
from aiorocketmq_conformance.targets.apache.setups import AS_SHIPPED, setups
from aiorocketmq_conformance.targets.apache.unavailable import ApacheUnavailableError
from aiorocketmq_fake.testcontainers.apache import Ports, programs

PORTS = Ports(namesrv=20000, broker=20003, grpc=20005, remoting=20006)


def test_ports_are_free_including_those_next_to_the_brokers() -> None:
    ports = free_ports(random.Random(1))
    taken = [ports.namesrv, ports.broker - 2, ports.broker, ports.broker + 1, ports.grpc, ports.remoting]
    assert len(set(taken)) == 6
    sockets = []
    try:
        for port in taken:
            sockets.append(socket.socket())
            sockets[-1].bind(("127.0.0.1", port))
    finally:
        for each in sockets:
            each.close()


def test_a_port_in_use_is_skipped() -> None:
    first = free_ports(random.Random(2))
    with socket.socket() as taken:
        taken.bind(("", first.grpc))
        assert free_ports(random.Random(2)) != first


def test_every_file_names_the_same_ports_and_stays_inside_its_home(tmp_path: Path) -> None:
    write_configuration(tmp_path, PORTS, {"fileReservedTime": "1", "flushDiskType": "SYNC_FLUSH"})
    broker = dict(line.split("=", 1) for line in (tmp_path / "conf/broker.conf").read_text().splitlines())
    assert (broker["listenPort"], broker["namesrvAddr"]) == ("20003", "127.0.0.1:20000")
    assert (broker["fileReservedTime"], broker["flushDiskType"]) == ("1", "SYNC_FLUSH")
    assert broker["storePathRootDir"].startswith(str(tmp_path))
    assert "listenPort=20000\n" in (tmp_path / "conf/namesrv.conf").read_text()
    proxy = json.loads((tmp_path / "conf/proxy.json").read_text())
    assert (proxy["grpcServerPort"], proxy["remotingListenPort"]) == (20005, 20006)


def test_every_case_gets_the_server_configured_for_its_needs() -> None:
    configured = setups("5.5.0", "cluster")
    assert configured.of(("@topic", "dlq")) is AS_SHIPPED
    assert configured.of(("type.delay", "recall")) is configured.switched_on
    assert configured.of(("type.lite",)) is configured.switched_on
    assert configured.of(("recall", "@restart")) is configured.restarted
    assert configured.of(("auth", "@acl")) is configured.users
    assert configured.of(("closed", "@group")) is configured.closed
    assert configured.of(("remoting", "@trim")) is configured.trimmed
    assert configured.restarted.broker == configured.switched_on.broker


@pytest.mark.parametrize(
    ("version", "mode", "serves"),
    [
        ("4.9.7", "local", set()),
        ("5.2.0", "local", set()),
        ("5.3.3", "local", {"recall", "auth", "@acl"}),
        ("5.5.0", "local", {"recall", "auth", "@acl"}),
        ("5.5.0", "cluster", {"recall", "auth", "@acl", "type.lite"}),
    ],
)
def test_what_a_server_can_be_configured_for_follows_from_version_and_mode(
    version: str, mode: str, serves: set[str]
) -> None:
    assert setups(version, mode).serves == serves | {"type.mixed", "closed", "@process", "@restart", "@trim"}


def test_users_are_asked_for_by_broker_and_proxy_alike(tmp_path: Path) -> None:
    users = setups("5.5.0", "local").users
    write_configuration(tmp_path, PORTS, users.broker, users.proxy)
    proxy = json.loads((tmp_path / "conf/proxy.json").read_text())
    assert proxy["authenticationEnabled"] is True
    assert "authenticationEnabled=true\n" in (tmp_path / "conf/broker.conf").read_text()
    assert users.administrator is not None
    assert users.administrator.secret_key in proxy["initAuthenticationUser"]


@pytest.mark.parametrize(
    ("mode", "names"),
    [
        ("local", ["namesrv", "proxy"]),
        ("cluster", ["namesrv", "broker", "proxy"]),
        ("broker", ["namesrv", "broker"]),
    ],
)
def test_the_mode_decides_the_processes(tmp_path: Path, mode: str, names: list[str]) -> None:
    processes = programs("java", Path("jars"), tmp_path, PORTS, mode=mode)
    assert [program.name for program in processes] == names
    assert all(
        program.command[0] == "java" and f"-Duser.home={tmp_path}" in program.command for program in processes
    )


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="must be local or cluster"):
        ApacheServer("5.5.0", mode="both")


def test_a_4_x_server_has_no_grpc_service() -> None:
    server = ApacheServer("4.9.7")
    with pytest.raises(ApacheUnavailableError, match="has no gRPC service"):
        _ = server.grpc
    with pytest.raises(RuntimeError, match="outside of `async with`"):
        _ = server.namesrv
