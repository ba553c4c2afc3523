"""Audits on a Spark cluster on this machine's loopback, held against a local session: the same results, or exit code 1.

A standalone master and two workers of one core each run `spark-submit` of the installed package, which workers do not
have (nor any Python); then again, with a worker killed after the first exchange; then a Spark Connect server on that
cluster is used by its address, from a client without Java. `--measure` times one worker against two instead.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import urlopen

import aiorocketmq_audit
import pyspark
from pyarrow import parquet

HOME = Path(pyspark.__file__).parent / "bin"
AUDIT = (sys.executable, "-m", "aiorocketmq_audit")
EXECUTOR = ("--executor-memory", "1536m")
LOOPBACK = "127.0.0.1"
DEADLINE = 3600.0
"""Seconds that one audit may take on a busy machine."""


def main() -> None:
    """Compare, or measure."""
    options = argparse.ArgumentParser(prog="nox -s cluster --")
    options.add_argument("--events", type=int, default=20_000)
    options.add_argument("--measure", action="store_true")
    chosen = options.parse_args()
    with TemporaryDirectory(prefix="aiorocketmq-cluster-") as folder, ExitStack() as stack:
        faults = () if chosen.measure else ("--plant", "all")
        generate = (*AUDIT, "--generate", f"{folder}/runs", "--events", str(chosen.events), *faults)
        subprocess.run(generate, check=True, stdout=subprocess.DEVNULL)
        cluster = Cluster(Path(folder), stack)
        (measure if chosen.measure else compare)(cluster)


def compare(cluster: Cluster) -> None:
    """Hold what the cluster finds against what a local session finds."""
    expected = cluster.audit("local", "--master", "local[1]").results()
    print(f"local: {len(expected)} verdicts and findings", flush=True)

    def hold(started: Started) -> None:
        results = started.results()
        if results != expected:
            sys.exit(f"{started.out.name} differs from the local session: {sorted(results ^ expected)}")
        print(f"{started.out.name}: the same", flush=True)

    cluster.start_worker()
    second = cluster.start_worker()
    hold(cluster.submit("submitted"))
    port = free_port()
    running = cluster.submit("worker-killed", "--conf", f"spark.ui.port={port}")
    wait_until(lambda: has_exchanged(port), running)
    second.process.kill()
    hold(running)
    cluster.start_worker()
    hold(cluster.audit("connected", "--master", cluster.start_connect_server(), has_java=False))


def measure(cluster: Cluster) -> None:
    """Print the seconds that one executor of one core takes, and two."""
    for workers in (1, 2):
        cluster.start_worker()
        began, load = time.monotonic(), os.getloadavg()[0]
        cluster.submit(f"on-{workers}").results()
        print(f"{workers} worker(s): {time.monotonic() - began:.1f} s, load {load:.1f}", flush=True)


@dataclass
class Started:
    """A process, where it logs, and where it writes its results."""

    process: subprocess.Popen[bytes]
    log: Path
    out: Path

    def results(self) -> set[str]:
        """Wait for an audit; returns its verdicts and findings as lines."""
        if self.process.wait(DEADLINE) not in (0, 1, 3):
            sys.exit(f"{self.out.name} failed:\n{self.log.read_text(errors='replace')[-5000:]}")
        summary = json.loads((self.out / "summary.json").read_text("utf-8"))
        checks = {
            json.dumps([check[k] for k in ("name", "verdict", "findings")], sort_keys=True)
            for check in summary["checks"]
        }
        rows = parquet.read_table(self.out / "violations").to_pylist()
        return checks | {json.dumps(row, sort_keys=True, default=str) for row in rows}

    def stop(self) -> None:
        """End it, by its own id, if it still runs."""
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Cluster:
    """A standalone master, and what is started beside it."""

    def __init__(self, shared: Path, stack: ExitStack) -> None:
        self.shared, self._stack = shared, stack
        port = free_port()
        self.master = f"spark://{LOOPBACK}:{port}"
        master = self._start_class("master.Master", "--port", str(port))
        wait_until(lambda: answers(port), master)

    def start_worker(self) -> Started:
        """Start a worker of one core."""
        size = ("--cores", "1", "--memory", "2g", "--work-dir", f"{self.shared}/work-{free_port()}")
        return self._start_class("worker.Worker", self.master, *size)

    def start_connect_server(self) -> str:
        """Start a Spark Connect server that works on the cluster; returns its address."""
        port = free_port()
        conf = (f"spark.connect.grpc.binding.address={LOOPBACK}", f"spark.connect.grpc.binding.port={port}")
        options = ("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", *EXECUTOR)
        words = (*options, "--conf", conf[0], "--conf", conf[1], "spark-internal")
        wait_until(
            lambda: answers(port),
            self._start("connect", HOME / "spark-submit", "--master", self.master, *words),
        )
        return f"sc://{LOOPBACK}:{port}"

    def submit(self, out: str, *options: str) -> Started:
        """Start an audit by `spark-submit`; a Python on a worker could not be started."""
        python = ("spark.pyspark.python=/nowhere", f"spark.pyspark.driver.python={sys.executable}")
        words = (*EXECUTOR, "--conf", python[0], "--conf", python[1], *options)
        script = Path(aiorocketmq_audit.__path__[0]) / "__main__.py"
        audited = (script, f"{self.shared}/runs", "--out", f"{self.shared}/{out}")
        return self._start(out, HOME / "spark-submit", "--master", self.master, *words, *audited)

    def audit(self, out: str, *options: str, has_java: bool = True) -> Started:
        """Start an audit by the command, on a machine that seems to have no Java if it needs none."""
        hidden = {} if has_java else {"JAVA_HOME": "/nowhere", "PATH": "/nowhere"}
        return self._start(
            out, *AUDIT, f"{self.shared}/runs", "--out", f"{self.shared}/{out}", *options, **hidden
        )

    def _start_class(self, name: str, *words: str) -> Started:
        options = (*words, "--host", LOOPBACK, "--webui-port", "0")
        return self._start(name, HOME / "spark-class", f"org.apache.spark.deploy.{name}", *options)

    def _start(self, name: str, *words: str | Path, **variables: str) -> Started:
        known = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK", "PYSPARK"))}
        log = self.shared / f"{name}-{time.monotonic_ns()}.log"
        with log.open("wb") as stream:
            environment = known | {"SPARK_LOCAL_IP": LOOPBACK} | variables
            process = subprocess.Popen(words, stdout=stream, stderr=stream, env=environment)
        started = Started(process, log, self.shared / name)
        self._stack.callback(started.stop)
        return started


def has_exchanged(port: int) -> bool:
    """Whether the application whose UI is on `port` has completed a stage that wrote for an exchange."""
    try:
        url = f"http://{LOOPBACK}:{port}/api/v1/applications"
        with urlopen(url, timeout=5) as answer:
            application = json.load(answer)[0]["id"]
        with urlopen(f"{url}/{application}/stages?status=complete", timeout=5) as answer:
            return any(stage["shuffleWriteBytes"] for stage in json.load(answer))
    except (OSError, LookupError, ValueError):
        # Until it has started, Spark's interface answers with a page in words.
        return False


def wait_until(condition: Callable[[], bool], started: Started) -> None:
    """Ask for `condition` ten times a second, as long as the process runs."""
    while not condition():
        if started.process.poll() is not None:
            sys.exit(
                f"{started.log.name} ended too early:\n{started.log.read_text(errors='replace')[-5000:]}"
            )
        time.sleep(0.1)


def free_port() -> int:
    """Return a port of the loopback that nobody uses."""
    with closing(socket.create_server((LOOPBACK, 0))) as server:
        return int(server.getsockname()[1])


def answers(port: int) -> bool:
    """Whether something accepts connections on `port`."""
    try:
        socket.create_connection((LOOPBACK, port), timeout=1).close()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
