"""Private Python environments for other projects' clients, made once and kept in the user's cache.

Their packages want other versions than ours and may not be imported into our process; so each lives in an
environment of its own, `<cache>/aiorocketmq/peers/<package>-<version>-<python>`, and is run as a subprocess.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

APACHE_CLIENT = "rocketmq-python-client"
ASK_INDEX_AGAIN_AFTER = 24 * 3600.0
PYTHON = f"py{sys.version_info.major}.{sys.version_info.minor}"


class PeerUnavailableError(Exception):
    """The environment is not there and cannot be made; the text says why, in one sentence."""


def cache_folder() -> Path:
    """Return the folder that holds the environments; `XDG_CACHE_HOME` moves it."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "aiorocketmq" / "peers"


def python_of(environment: Path) -> Path:
    """Return the interpreter of an environment."""
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def apache_python() -> Path:
    """Return the interpreter of an environment with the newest Apache Python client.

    The package index is asked for its newest version once a day; without an index the newest environment that
    is already there serves. Raises `PeerUnavailableError`.
    """
    folder = cache_folder()
    try:
        version = _newest_version(folder)
    except PeerUnavailableError:
        there = sorted(
            folder.glob(f"{APACHE_CLIENT}-*-{PYTHON}"), key=lambda path: (path.stat().st_mtime_ns, path.name)
        )
        if not there:
            raise
        return python_of(there[-1])
    environment = folder / f"{APACHE_CLIENT}-{version}-{PYTHON}"
    if not environment.exists():
        _make(environment, f"{APACHE_CLIENT}=={version}")
    return python_of(environment)


def _newest_version(folder: Path) -> str:
    """Ask the index, or a note of its answer that is less than a day old."""
    note = folder / f"newest-{PYTHON}.json"
    try:
        known = json.loads(note.read_text(encoding="utf-8"))
        if 0 <= time.time() - known["asked"] < ASK_INDEX_AGAIN_AFTER:
            return str(known["version"])
    except (OSError, ValueError, KeyError):
        pass  # no note yet, or one that is cut: ask
    pip = folder / f"pip-{PYTHON}"
    if not pip.exists():
        _make(pip)
    answer = _run(python_of(pip), "-m", "pip", "index", "versions", APACHE_CLIENT)
    version = answer.partition("(")[2].partition(")")[0]
    if not version:
        raise PeerUnavailableError(
            f"the package index knows no {APACHE_CLIENT} for this Python: {answer.strip()[:200]}"
        )
    note.write_text(json.dumps({"asked": time.time(), "version": version}), encoding="utf-8")
    return version


def _make(environment: Path, *requirements: str) -> None:
    """Make an environment aside and move it into place when it is whole, so that no reader sees half of one."""
    environment.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=environment.parent, prefix=".making-") as aside:
        built = Path(aside) / "environment"
        _run(sys.executable, "-m", "venv", built)
        if requirements:
            _run(python_of(built), "-m", "pip", "install", "-q", *requirements)
        try:
            built.rename(environment)
        except OSError:
            if not environment.exists():  # else another process was faster, and its environment is as good
                raise


def _run(*command: str | Path) -> str:
    """Run a command and return what it printed."""
    environ = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_RETRIES": "1"}
    environ.pop("PYTHONPATH", None)
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=300, check=False)
    except (OSError, subprocess.TimeoutExpired) as failure:
        raise PeerUnavailableError(f"`{' '.join(map(str, command[1:]))}` did not end: {failure}") from failure
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise PeerUnavailableError(f"`{' '.join(map(str, command[1:]))}` failed: {last}")
    return done.stdout
