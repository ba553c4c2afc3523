"""Builds both images, runs the tests in containers, and judges both images: `python -m tools.containers`.

Prints `SKIPPED` with the reason where no container engine answers or can be started.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from tools.containers.engine import EngineUnavailableError, engine
from tools.containers.images import FAKE, SIZE_LIMIT, apache_image, build_apache, build_fake, size


def main() -> int:
    """Return the exit code: 0 also if there is no engine."""
    parser = argparse.ArgumentParser(prog="nox -s containers --", allow_abbrev=False)
    parser.add_argument("--versions", nargs="+", default=["5.5.0"], metavar="VERSION")
    parser.add_argument("--only", choices=("tests", "cases"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="aiorocketmq-containers-", ignore_cleanup_errors=True) as folder:
        try:
            with engine(Path(folder)):
                return _run(Path(folder), options.versions, options.only)
        except EngineUnavailableError as reason:
            print(f"SKIPPED the containers: {reason}.")
            return 0


def _run(folder: Path, versions: list[str], only: str | None) -> int:
    images = [build_fake(folder / "fake"), *(build_apache(folder / f"apache-{one}", one) for one in versions)]
    for image in images:
        print(f"{image}: {size(image):.0f} MB", flush=True)
    if size(FAKE) > SIZE_LIMIT:
        print(f"{FAKE} must have at most {SIZE_LIMIT} MB")
        return 1
    environment = {
        **os.environ,
        # Its image cannot be had without a registry; every container is removed by whoever started it.
        "TESTCONTAINERS_RYUK_DISABLED": "true",
        # Ports are published on this machine, also if it is itself a container.
        "TESTCONTAINERS_CONNECTION_MODE": "docker_host",
        "TESTCONTAINERS_HOST_OVERRIDE": "127.0.0.1",
        "AIOROCKETMQ_FAKE_IMAGE": FAKE,
    }
    commands: list[tuple[tuple[str, ...], Mapping[str, str]]] = []
    if only != "cases":
        for version in versions:
            paths = ("fake_broker/tests/testcontainers", "docs/tests/test_examples.py")
            tests = ("pytest", "-m", "containers", *paths)
            commands.append((tests, {"AIOROCKETMQ_IMAGE": apache_image(version)}))
    if only != "tests":
        targets = tuple(f"--target=docker:{image}" for image in images)
        commands.append((("aiorocketmq", "conformance", "run", *targets, "--level", "M"), {}))
    codes = []
    for command, variables in commands:
        began = time.monotonic()
        codes.append(
            subprocess.run(
                [sys.executable, "-m", *command], env={**environment, **variables}, check=False
            ).returncode
        )
        print(f"{command[0]}: {time.monotonic() - began:.0f} s", flush=True)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
