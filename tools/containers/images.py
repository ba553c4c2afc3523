"""Images without an image registry: from Debian's packages, Python's and Maven's."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import docker
from aiorocketmq_conformance.targets.apache.jars import fetch_jars

__all__ = ["FAKE", "SIZE_LIMIT", "apache_image", "build_apache", "build_fake", "size"]

ROOT = Path(__file__).resolve().parents[2]
FAKE = "aiorocketmq-fake:test"
SIZE_LIMIT = 150
"""Megabytes that the fake's image may have."""
_BASE = "aiorocketmq-base:test"
_SHELL = "busybox-static"


def apache_image(version: str) -> str:
    """Return the name of the image of a real server."""
    return f"aiorocketmq-apache:{version}"


def size(image: str) -> float:
    """Return the size of an image in megabytes."""
    client = docker.from_env()
    try:
        return float(client.images.get(image).attrs["Size"]) / 1e6
    finally:
        client.close()


def build_fake(folder: Path) -> str:
    """Build the fake's image by the Dockerfile, on a base of Debian's packages; return its name."""
    root = _root_of_packages(folder / "python", "python3", "libstdc++6", _SHELL)
    (python,) = (root / "usr/lib").glob("python3.*")
    wheels = folder / "context/wheels"
    _download_wheels(wheels, python.name.removeprefix("python"))
    (pip,) = wheels.glob("pip-*.whl")
    shutil.unpack_archive(pip, root / "usr/lib/python3/dist-packages", "zip")
    _import(root, _BASE)
    context = folder / "context"
    files = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout.decode()
    for name in files.split("\0"):
        if name and (ROOT / name).is_file():
            (context / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, context / name)
    arguments = {"BASE": _BASE, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/source/wheels"}
    _build(context, FAKE, arguments)
    return FAKE


def build_apache(folder: Path, version: str) -> str:
    """Build an image of a real server, laid out as Apache's own: Java, `$ROCKETMQ_HOME/lib`, a user without rights."""
    root = _root_of_packages(folder / "java", "openjdk-17-jre-headless", _SHELL)
    (java,) = (root / "usr/lib/jvm").glob("java-17-openjdk-*/bin/java")
    (root / "usr/bin/java").symlink_to(f"/{java.relative_to(root)}")
    home = Path(f"home/rocketmq/rocketmq-{version}")
    shutil.copytree(asyncio.run(fetch_jars(version)), root / home / "lib")
    _import(
        root,
        apache_image(version),
        f"ENV ROCKETMQ_VERSION={version} ROCKETMQ_HOME=/{home}",
        "USER 3000:3000",
    )
    return apache_image(version)


def _root_of_packages(folder: Path, *packages: str) -> Path:
    """Unpack Debian packages with all that they depend on, as on a machine without any; return the folder."""
    archives, root, status = folder / "archives", folder / "root", folder / "status"
    (archives / "partial").mkdir(parents=True)
    status.touch()
    subprocess.run(
        [
            *("apt-get", "-qq", "-y", "--no-install-recommends", "--download-only"),
            *("-o", f"Dir::State::status={status}", "-o", f"Dir::Cache::archives={archives}/"),
            *("-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User=root", "install", *packages),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    for archive in archives.glob("*.deb"):
        subprocess.run(["dpkg-deb", "--extract", archive, root], check=True)
    for name in ("doc", "locale", "man", "info", "fonts"):
        shutil.rmtree(root / "usr/share" / name, ignore_errors=True)
    # What the packages' scripts would do: the shell's commands, a folder for all, names of users.
    for applet in subprocess.run(
        [root / "bin/busybox", "--list"], check=True, capture_output=True, text=True
    ).stdout.split():
        if not (root / "bin" / applet).is_symlink() and not (root / "bin" / applet).exists():
            (root / "bin" / applet).symlink_to("busybox")
    (root / "tmp").mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    return root


def _download_wheels(folder: Path, python: str) -> None:
    """Download what the Dockerfile installs, and what builds the project, for that version of Python."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    requirements = [
        *project["project"]["dependencies"],
        *project["project"]["optional-dependencies"]["cli"],
        *project["build-system"]["requires"],
        "pip",
    ]
    folder.mkdir(parents=True)
    subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "pip",
                "download",
                "-q",
                "--only-binary=:all:",
                "--python-version",
                python,
            ),
            *("-d", str(folder), *requirements),
        ],
        check=True,
    )


def _import(root: Path, tag: str, *changes: str) -> None:
    """Make an image of one layer, as `FROM scratch`, `COPY root /` and `changes` would, without a copy for each."""
    archive = root.with_suffix(".tar")
    with tarfile.open(archive, "w") as tar:
        tar.add(root, arcname="/", filter=_of_root)
    client = docker.from_env()
    try:
        repository, _, version = tag.partition(":")
        client.api.import_image_from_file(
            str(archive), repository=repository, tag=version, changes=list(changes)
        )
    finally:
        client.close()


def _of_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry


def _build(context: Path, tag: str, arguments: dict[str, str]) -> None:
    client = docker.from_env()
    try:
        client.images.build(path=str(context), tag=tag, buildargs=arguments, rm=True, forcerm=True)
    except docker.errors.BuildError as error:
        log = "".join(str(line.get("stream", "")) for line in error.build_log if isinstance(line, dict))
        raise RuntimeError(f"the image {tag} could not be built: {error.msg}\n{log[-4000:]}") from error
    finally:
        client.close()
