"""Files and command lines of an Apache installation: name server, broker, proxy; live-broker.md section 1."""

from __future__ import annotations

import json
import os
import random
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aiorocketmq_conformance.targets.apache.unavailable import ApacheUnavailableError

HOST = "127.0.0.1"
BROKER_NAME = "broker-a"
CLUSTER = "DefaultCluster"

# What Java 17 must open for the server's direct buffers; small heaps are enough for tests.
_JVM = (
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "-XX:MaxDirectMemorySize=512m",
)
_HEAP = {
    "namesrv": ("-Xms64m", "-Xmx256m"),
    "broker": ("-Xms256m", "-Xmx768m"),
    "proxy": ("-Xms256m", "-Xmx768m"),
}
# Below the range from which systems take ports for outgoing connections.
_PORTS = range(20000, 32000)


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports of one installation; the broker also takes `broker - 2` and `broker + 1`."""

    namesrv: int
    broker: int
    grpc: int
    remoting: int


@dataclass(frozen=True, slots=True)
class Program:
    """One server process: its command, and the text on its output when it is ready."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    ready: str


def free_ports(rng: random.Random) -> Ports:
    """Return ports that are free at this moment; raises ApacheUnavailableError if there are none."""
    for _ in range(200):
        base = rng.randrange(_PORTS.start, _PORTS.stop, 10)
        if all(_is_free(base + step) for step in range(8)):
            return Ports(namesrv=base, broker=base + 3, grpc=base + 5, remoting=base + 6)
    raise ApacheUnavailableError(
        f"no eight free ports in a row between {_PORTS.start} and {_PORTS.stop}: stop some servers."
    )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def write_configuration(
    home: Path, ports: Ports, settings: Mapping[str, str], proxy_settings: Mapping[str, object] | None = None
) -> None:
    """Write the configuration files under `home`, with further `settings` of the broker and of the proxy."""
    (home / "conf").mkdir(parents=True, exist_ok=True)
    namesrv = {
        "listenPort": str(ports.namesrv),
        "kvConfigPath": str(home / "namesrv/kv.json"),
        "configStorePath": str(home / "namesrv/namesrv.properties"),
    }
    broker = {
        "brokerClusterName": CLUSTER,
        "brokerName": BROKER_NAME,
        "brokerId": "0",
        "brokerIP1": HOST,
        "brokerIP2": HOST,
        "listenPort": str(ports.broker),
        "haListenPort": str(ports.broker + 1),
        "namesrvAddr": f"{HOST}:{ports.namesrv}",
        "storePathRootDir": str(home / "store"),
        "storePathCommitLog": str(home / "store/commitlog"),
        "mappedFileSizeCommitLog": "67108864",
        "mappedFileSizeConsumeQueue": "600000",
        "flushDiskType": "ASYNC_FLUSH",
        "autoCreateTopicEnable": "true",
        "autoCreateSubscriptionGroup": "true",
        "enablePropertyFilter": "true",
        "timerWheelEnable": "true",
        # Milliseconds after which a waiting send is refused as "busy": the default 200 punishes slow machines.
        "waitTimeMillsInSendQueue": "10000",
        # From 3 s after the last commit or rollback on, servers use a whole processor: the thread that batches marks
        # of ended transactions never sleeps again (TransactionalOpBatchService, observed on 5.5.0). Writing each mark
        # at once leaves it nothing to batch.
        "transactionOpMsgMaxSize": "1",
        "transactionOpBatchInterval": "86400000",
        **settings,
    }
    proxy = {
        "rocketMQClusterName": CLUSTER,
        "namesrvAddr": f"{HOST}:{ports.namesrv}",
        "grpcServerPort": ports.grpc,
        "remotingListenPort": ports.remoting,
        "localServeAddr": HOST,
        **(proxy_settings or {}),
    }
    (home / "conf/namesrv.conf").write_text(_properties(namesrv), encoding="utf-8")
    (home / "conf/broker.conf").write_text(_properties(broker), encoding="utf-8")
    (home / "conf/proxy.json").write_text(json.dumps(proxy, indent=2), encoding="utf-8")
    # 4.x servers need this file; an empty one logs nothing.
    for name in ("namesrv", "broker"):
        (home / f"conf/logback_{name}.xml").write_text("<configuration/>", encoding="utf-8")


def _properties(values: Mapping[str, str]) -> str:
    # Java's properties format reads a backslash as an escape; paths of Windows have them.
    return "".join(f"{key}={value.replace(chr(92), '/')}\n" for key, value in values.items())


def programs(java: str, jars: Path, home: Path, ports: Ports, *, mode: str) -> list[Program]:
    """Return the processes of one installation in the order in which they are started.

    `mode` is `local` (the broker lives inside the proxy), `cluster` (a separate proxy) or `broker` (no proxy:
    4.x).
    """

    def program(name: str, ready: str, main: str, *arguments: str) -> Program:
        options = (f"-Duser.home={home}", f"-Dcom.rocketmq.proxy.configPath={home / 'conf/proxy.json'}")
        return Program(
            name,
            (java, *_HEAP[name], *_JVM, *options, "-cp", os.path.join(jars, "*"), main, *arguments),
            {"ROCKETMQ_HOME": str(home), "NAMESRV_ADDR": f"{HOST}:{ports.namesrv}"},
            ready,
        )

    namesrv = program(
        "namesrv",
        "boot success",
        "org.apache.rocketmq.namesrv.NamesrvStartup",
        "-c",
        f"{home}/conf/namesrv.conf",
    )
    broker = program(
        "broker", "boot success", "org.apache.rocketmq.broker.BrokerStartup", "-c", f"{home}/conf/broker.conf"
    )
    proxy_arguments = ["-pm", mode, "-n", f"{HOST}:{ports.namesrv}", "-pc", f"{home}/conf/proxy.json"]
    if mode == "local":
        proxy_arguments += ["-bc", f"{home}/conf/broker.conf"]
    proxy = program(
        "proxy", "startup successfully", "org.apache.rocketmq.proxy.ProxyStartup", *proxy_arguments
    )
    return {"local": [namesrv, proxy], "cluster": [namesrv, broker, proxy], "broker": [namesrv, broker]}[mode]
