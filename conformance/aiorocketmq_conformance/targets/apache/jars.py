"""Fetches a version's jars with Maven, once, into the user's cache directory."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from aiorocketmq_conformance.targets.apache.unavailable import ApacheUnavailableError

COMPLETE_VERSIONS = ("5.5.0", "5.4.0", "5.3.3", "5.2.0", "4.9.7")
"""Versions whose artifacts are all in Maven's central repository; live-broker.md section 1."""

_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_ARTIFACTS = ("rocketmq-proxy", "rocketmq-namesrv", "rocketmq-broker", "rocketmq-tools")
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>aiorocketmq.throwaway</groupId><artifactId>class-path</artifactId><version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_DEPENDENCY = (
    "    <dependency><groupId>org.apache.rocketmq</groupId>"
    "<artifactId>{artifact}</artifactId><version>{version}</version></dependency>"
)
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_MISSING = re.compile(r"(?:Could not find artifact|Failure to find) org\.apache\.rocketmq:([\w-]+)")


def has_proxy(version: str) -> bool:
    """Return whether this version has the gRPC proxy; 4.x servers serve the classic protocol only."""
    return not version.startswith("4.")


def find_java() -> str:
    """Return the path of the `java` program, from JAVA_HOME or the search path; raises ApacheUnavailableError."""
    home = os.environ.get("JAVA_HOME")
    path = shutil.which("java", path=str(Path(home, "bin"))) if home else None
    path = path or shutil.which("java")
    if path is None:
        raise ApacheUnavailableError(
            "an Apache server needs Java, which was not found: install a JDK 17 or set JAVA_HOME."
        )
    return path


def cache_directory() -> Path:
    """Return the directory of jars: the platform's directory for data that may be deleted at any time."""
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/aiorocketmq/apache"
    if sys.platform == "win32":
        return (
            Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local") / "aiorocketmq/Cache/apache"
        )
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "aiorocketmq/apache"


async def fetch_jars(
    version: str,
    *,
    artifacts: Sequence[str] | None = None,
    timeout: float = 600.0,
    cache: Path | None = None,
) -> Path:
    """Return a directory with all jars of `version`, fetched by Maven if it is not in the cache yet.

    Those are a server's, unless `artifacts` names others.

    The first time takes 10 to 60 s and about 94 MB. Raises ApacheUnavailableError if Maven is missing, does not
    finish within `timeout` seconds, or the version is not complete in its repository. Cancellation leaves the cache
    unchanged.
    """
    if not _VERSION.fullmatch(version):
        raise ApacheUnavailableError(
            f"{version!r} is not a version of Apache RocketMQ: try one of {', '.join(COMPLETE_VERSIONS)}."
        )
    ready = (cache or cache_directory()) / "-".join((*(artifacts or ()), version))
    if ready.is_dir():
        return ready
    maven = shutil.which("mvn")
    if maven is None:
        raise ApacheUnavailableError(
            f"Apache RocketMQ {version} is fetched by Maven, but mvn was not found: install Maven."
        )
    ready.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        dir=ready.parent, prefix=f".{version}-", ignore_cleanup_errors=True
    ) as work:
        await _copy_dependencies(maven, version, artifacts or _server(version), Path(work), timeout)
        _publish(Path(work, "jars"), ready)
    return ready


async def _copy_dependencies(
    maven: str, version: str, artifacts: Sequence[str], work: Path, timeout: float
) -> None:
    (work / "pom.xml").write_text(_pom(version, artifacts), encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        maven, "--batch-mode", "--quiet", _GOAL,
        f"-DoutputDirectory={work / 'jars'}", "-DincludeScope=runtime",
        cwd=work, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        output, _ = await asyncio.wait_for(process.communicate(), timeout)
    except TimeoutError:
        raise ApacheUnavailableError(
            f"Maven did not fetch Apache RocketMQ {version} within {timeout:g} s: try again later."
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise ApacheUnavailableError(_complaint(version, output.decode(errors="replace")))


def _publish(jars: Path, ready: Path) -> None:
    try:
        jars.rename(ready)
    except OSError:
        # Another process was faster; its copy is equivalent.
        if not ready.is_dir():
            raise


def _server(version: str) -> Sequence[str]:
    return _ARTIFACTS if has_proxy(version) else _ARTIFACTS[1:]


def _pom(version: str, artifacts: Sequence[str]) -> str:
    return _POM.format(
        dependencies="\n".join(_DEPENDENCY.format(artifact=name, version=version) for name in artifacts)
    )


def _complaint(version: str, output: str) -> str:
    if missing := _MISSING.search(output):
        return (
            f"Apache RocketMQ {version} is not complete in Maven's repository ({missing[1]} is missing): "
            f"try one of {', '.join(COMPLETE_VERSIONS)}."
        )
    errors = [line.removeprefix("[ERROR] ").strip() for line in output.splitlines() if "ERROR" in line]
    return f"Maven could not fetch Apache RocketMQ {version}: {errors[0] if errors else 'no reason given'}"
