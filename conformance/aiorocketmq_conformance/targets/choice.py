"""Parses `--target`."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from aiorocketmq_conformance.declaration import Declaration
from aiorocketmq_conformance.targets.absences import absences
from aiorocketmq_conformance.targets.apache.jars import has_proxy
from aiorocketmq_conformance.targets.declarations import DECLARATIONS
from aiorocketmq_conformance.targets.interface import BrokerUnderTest

FAKE_PROFILES = ("documented", "apache-5.5", "apache-5.5-cluster")
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+):(\d{1,5})")
_NAMESRV = re.compile(rf"((namesrv|broker)://)?{_ADDRESS.pattern}")
_APACHE = re.compile(r"(\d+\.\d+\.\d+)(:cluster)?")
_FORMS = "fake, fake:PROFILE, HOST:PORT, apache:VERSION, apache:VERSION:cluster or docker:IMAGE[:TAG]"


_IMAGE = re.compile(r"[\w.-]+(:\d+)?(/[\w.-]+)*(:[\w.-]+)?(@sha256:[0-9a-f]{64})?")


class InvalidTargetError(ValueError):
    """An invalid `--target`; the text has the allowed forms."""


def choose(
    spec: str,
    *,
    namesrv: str | None = None,
    control: str | None = None,
    create_topics: str | None = None,
    declared: str = "apache-5.5",
    record: Path | None = None,
    driven: bool = False,
) -> BrokerUnderTest:
    """Return the broker that `spec` names, not started yet; InvalidTargetError if it is invalid.

    TargetUnavailableError if it names an image that cannot be examined.

    `namesrv` (`namesrv://host:port`, or without its scheme; `broker://host:port`), `control` (`host:port`) or
    `create_topics` (`auto`), and `declared` (a name of `DECLARATIONS`), describe a HOST:PORT target. `record` is a
    folder for recordings: by a fake in this process, for any other target by the suite's clients. `driven` is
    for cases of one task each, as the explorer's: a fake's clock moves only while that task sleeps.
    """
    kind, _, rest = spec.partition(":")
    if record is not None and find_spec("pyarrow") is None:
        raise InvalidTargetError("--record needs pyarrow: run pip install 'aiorocketmq[recording]'")
    if kind != spec and _ADDRESS.fullmatch(spec) and kind not in {"fake", "apache", "docker"}:
        from aiorocketmq_conformance.targets.address import AddressBroker

        if len([each for each in (namesrv, control, create_topics) if each]) > 1:
            raise InvalidTargetError(
                "--namesrv, --control and --create-topics exclude each other: pass one of them"
            )
        if namesrv and not _NAMESRV.fullmatch(namesrv):
            raise InvalidTargetError(
                f"--namesrv must be namesrv://HOST:PORT or broker://HOST:PORT, got {namesrv!r}"
            )
        return AddressBroker(
            spec,
            declaration=_declaration(declared),
            namesrv=namesrv,
            control=control,
            creates_topics=create_topics == "auto",
            record=record,
        )
    if namesrv or control or create_topics:
        raise InvalidTargetError("--namesrv, --control and --create-topics apply to HOST:PORT targets only")
    if kind == "fake":
        return _fake(rest or FAKE_PROFILES[0], record, driven=driven)
    if kind == "apache" and (matched := _APACHE.fullmatch(rest)):
        from aiorocketmq_conformance.targets.apache.target import ApacheBroker

        mode = "cluster" if matched[2] else "local"
        declaration = _apache_declaration(matched[1], mode)
        return ApacheBroker(matched[1], mode=mode, declaration=declaration, record=record)
    if kind == "docker" and _IMAGE.fullmatch(rest):
        return _docker(rest, record)
    raise InvalidTargetError(f"--target must be {_FORMS}, got {spec!r}")


def _fake(profile: str, record: Path | None, *, driven: bool) -> BrokerUnderTest:
    if profile not in FAKE_PROFILES:
        raise InvalidTargetError(
            f"the fake's profile must be one of {', '.join(FAKE_PROFILES)}, got {profile!r}"
        )
    from aiorocketmq_conformance.targets.fake import BundledFake

    return BundledFake(profile, declaration=_declaration(f"fake-{profile}"), record=record, driven=driven)


def _docker(image: str, record: Path | None) -> BrokerUnderTest:
    try:
        from aiorocketmq_conformance.targets.docker import DockerBroker, apache_version
    except ModuleNotFoundError as missing:
        raise InvalidTargetError(str(missing)) from missing
    version = apache_version(image)
    if version is None:
        return DockerBroker(image, None, declaration=_declaration("fake-documented"), record=record)
    if not has_proxy(version):
        raise InvalidTargetError(
            f"the RocketMQ {version} in {image} has no gRPC service: judge apache:{version}"
        )
    return DockerBroker(image, version, declaration=_apache_declaration(version, "local"), record=record)


def _declaration(name: str) -> Declaration:
    if name not in DECLARATIONS:
        raise InvalidTargetError(f"--declared must be one of {', '.join(sorted(DECLARATIONS))}, got {name!r}")
    return DECLARATIONS[name]


def _apache_declaration(version: str, mode: str) -> Declaration:
    if not has_proxy(version):
        return replace(DECLARATIONS["apache-4.9"], version=version)
    base = DECLARATIONS["apache-5.5-cluster" if mode == "cluster" else "apache-5.5"]
    if mode == "local" and version.startswith(("5.2.", "5.3.")):
        base = DECLARATIONS["apache-5.3"]
    number = tuple(map(int, version.split(".")))
    reasons = absences(number, mode)
    capabilities = base.capabilities - reasons.keys()
    return Declaration(base.product, f"{version} ({mode} mode)", capabilities, base.numbers, reasons)
