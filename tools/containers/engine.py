"""A Docker engine for one run: the one that answers, or one of Debian's packages that ends with the run."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import docker
import docker.errors

__all__ = ["EngineUnavailableError", "engine"]

STARTING = 60.0
_LAST_LINES = 3


class EngineUnavailableError(Exception):
    """No container engine can be started here; the text has the reason."""


@contextmanager
def engine(folder: Path) -> Iterator[None]:
    """Let an engine answer at DOCKER_HOST until the block ends; EngineUnavailableError.

    Needs root and dockerd if none answers; its data and socket live in `folder`. It changes no rule of the firewall:
    published ports are served by its proxy process, and containers reach nothing outside. It chooses how it stores
    images by itself: overlay2, or plain copies (vfs) if the file system of `folder` bears no overlay.
    """
    if _answers():
        yield
        return
    daemon = shutil.which("dockerd")
    if daemon is None:
        raise EngineUnavailableError(
            "no Docker engine answers, and dockerd is not here: install docker.io or start Docker"
        )
    if os.name != "posix" or os.geteuid() != 0:
        raise EngineUnavailableError("no Docker engine answers, and only root can start dockerd")
    with _started(daemon, folder):
        yield


@contextmanager
def _started(daemon: str, folder: Path) -> Iterator[None]:
    address, log = f"unix://{folder / 'docker.sock'}", folder / "dockerd.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *(daemon, "--host", address, "--pidfile", str(folder / "pid")),
                *("--data-root", str(folder / "data"), "--exec-root", str(folder / "exec")),
                *("--iptables=false", "--ip6tables=false", "--userland-proxy=true"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    before = os.environ.get("DOCKER_HOST")
    os.environ["DOCKER_HOST"] = address
    try:
        until = time.monotonic() + STARTING
        while not _answers():
            if process.poll() is not None or time.monotonic() > until:
                lines = log.read_text(errors="replace").splitlines()[-_LAST_LINES:]
                raise EngineUnavailableError(f"dockerd does not start here; last output: {' / '.join(lines)}")
            time.sleep(0.1)
        yield
    finally:
        if before is None:
            del os.environ["DOCKER_HOST"]
        else:
            os.environ["DOCKER_HOST"] = before
        # It ends its containerd, and what still runs in containers.
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers() -> bool:
    try:
        client = docker.from_env()
    except docker.errors.DockerException:
        return False
    client.close()
    return True
