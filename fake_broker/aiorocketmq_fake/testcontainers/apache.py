"""Files and command lines of an Apache server: name server, broker, proxy.

Serves containers here and processes of the conformance suite; decides only, neither writes nor starts anything. What is
stated here was measured on servers of 4.9.7 to 5.5.0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

__all__ = ["CLUSTER", "LOOPBACK", "Ports", "Program", "configuration", "programs"]

LOOPBACK = "127.0.0.1"
BROKER_NAME = "broker-a"
CLUSTER = "DefaultCluster"

# What Java 17 must open for the server's direct buffers. In the environment, since Java 8 ends at unknown options, and
# ignores this variable.
_OPENED = (
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)
# Small heaps are enough for tests.
_MEMORY = "-XX:MaxDirectMemorySize=512m"
_HEAP = {
    "namesrv": ("-Xms64m", "-Xmx256m"),
    "broker": ("-Xms256m", "-Xmx768m"),
    "proxy": ("-Xms256m", "-Xmx768m"),
}


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


def configuration(
    home: PurePath,
    ports: Ports,
    *,
    host: str = LOOPBACK,
    settings: Mapping[str, str] | None = None,
    proxy_settings: Mapping[str, object] | None = None,
) -> Mapping[str, str]:
    """Return the files under `home` by their names; routes name `host`.

    `settings` are further lines of broker.conf, `proxy_settings` further entries of the proxy's JSON.
    """
    namesrv = {
        "listenPort": str(ports.namesrv),
        "kvConfigPath": str(home / "namesrv/kv.json"),
        "configStorePath": str(home / "namesrv/namesrv.properties"),
    }
    broker = {
        "brokerClusterName": CLUSTER,
        "brokerName": BROKER_NAME,
        "brokerId": "0",
        "brokerIP1": host,
        "brokerIP2": host,
        "listenPort": str(ports.broker),
        "haListenPort": str(ports.broker + 1),
        "namesrvAddr": f"{LOOPBACK}:{ports.namesrv}",
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
        **(settings or {}),
    }
    proxy = {
        "rocketMQClusterName": CLUSTER,
        "namesrvAddr": f"{LOOPBACK}:{ports.namesrv}",
        "grpcServerPort": ports.grpc,
        "remotingListenPort": ports.remoting,
        "localServeAddr": LOOPBACK,
        **(proxy_settings or {}),
    }
    return {
        "conf/namesrv.conf": _properties(namesrv),
        "conf/broker.conf": _properties(broker),
        "conf/proxy.json": json.dumps(proxy, indent=2),
        # 4.x servers need these files; empty ones log nothing.
        "conf/logback_namesrv.xml": "<configuration/>",
        "conf/logback_broker.xml": "<configuration/>",
    }


def _properties(values: Mapping[str, str]) -> str:
    # Java's properties format reads a backslash as an escape; paths of Windows have them.
    return "".join(f"{key}={value.replace(chr(92), '/')}\n" for key, value in values.items())


def programs(java: str, jars: PurePath, home: PurePath, ports: Ports, *, mode: str) -> list[Program]:
    """Return the processes of one installation in the order in which they are started.

    `mode` is `local` (the broker lives inside the proxy), `cluster` (a separate proxy) or `broker` (no proxy:
    4.x).
    """

    def program(name: str, ready: str, main: str, *arguments: str) -> Program:
        options = (f"-Duser.home={home}", f"-Dcom.rocketmq.proxy.configPath={home / 'conf/proxy.json'}")
        return Program(
            name,
            (java, *_HEAP[name], _MEMORY, *options, "-cp", str(jars / "*"), main, *arguments),
            {
                "ROCKETMQ_HOME": str(home),
                "NAMESRV_ADDR": f"{LOOPBACK}:{ports.namesrv}",
                "JDK_JAVA_OPTIONS": " ".join(_OPENED),
            },
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
    proxy_arguments = ["-pm", mode, "-n", f"{LOOPBACK}:{ports.namesrv}", "-pc", f"{home}/conf/proxy.json"]
    if mode == "local":
        proxy_arguments += ["-bc", f"{home}/conf/broker.conf"]
    proxy = program(
        "proxy", "startup successfully", "org.apache.rocketmq.proxy.ProxyStartup", *proxy_arguments
    )
    return {"local": [namesrv, proxy], "cluster": [namesrv, broker, proxy], "broker": [namesrv, broker]}[mode]
