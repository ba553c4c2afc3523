# /// script
# requires-python = ">=3.11"
# dependencies = ["nox>=2024.10.9"]
# ///
"""What one can do with this checkout: `python3 noxfile.py -l` lists it, `python3 noxfile.py -s NAME` does it.

Nothing but Python 3.11+ and a package index is needed: where nox is missing, this file brings it into a private
environment (`.nox-bootstrap`) and starts again from there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).resolve().parent


def bring_nox() -> None:
    """Start this file again from a private environment that has nox; make that environment first if need be."""
    if sys.version_info < (3, 11):  # noqa: UP036 - nothing has checked the version yet
        sys.exit(
            f"aiorocketmq needs Python 3.11 or newer, this is {sys.version.split()[0]}: run a newer python3."
        )
    home = HERE / ".nox-bootstrap"
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if (
        not python.exists()
        or subprocess.run([python, "-c", "import nox"], capture_output=True, check=False).returncode
    ):
        print("noxfile: nox is not here, bringing it into .nox-bootstrap", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        subprocess.run(
            [python, "-m", "pip", "--disable-pip-version-check", "install", "-q", "nox>=2024.10.9"],
            check=True,
        )
    sys.exit(subprocess.run([python, __file__, *sys.argv[1:]], check=False).returncode)


try:
    import nox
    from nox.command import CommandFailed
except ModuleNotFoundError:
    if __name__ != "__main__":
        raise
    bring_nox()

nox.needs_version = ">=2024.10.9"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["lint", "wire", "docs", "tests"]

PROJECT = nox.project.load_toml(HERE / "pyproject.toml")
PYTHONS = nox.project.python_versions(PROJECT)


def install(session: nox.Session, *groups: str, extras: str = "", flags: tuple[str, ...] = ()) -> None:
    """Install the checkout, editable, with `extras` and dependency groups."""
    session.install(
        *flags, "-e", f".[{extras}]" if extras else ".", *nox.project.dependency_groups(PROJECT, *groups)
    )


def java_is_here(session: nox.Session, what: str) -> bool:
    """Tell whether a real Apache server can be had; print the reason when not, so that nothing is skipped silently."""
    missing = [name for name in ("java", "mvn") if shutil.which(name) is None]
    if missing:
        session.log(f"SKIPPED {what}: {' and '.join(missing)} not found on the path.")
    return not missing


@nox.session
def demo(session: nox.Session) -> None:
    """Run the whole toolkit once, live: produce, consume by all clients, judge, record, audit, report."""
    install(session, extras="all")
    session.run("aiorocketmq", "demo", *session.posargs)


@nox.session
def shared(session: nox.Session) -> None:
    """Make one environment with everything, for sessions that are started with `--no-venv --no-install`, as `.ci/run`
    does."""
    install(session, "dev", extras="all")


PARTS = {
    # Three processes on two cores: many wait for what a server does in real time. The audit apart and in two: beside
    # grpcio's forks, Spark does not start, and it fills a core alone.
    "rest": (3, ("sdk/tests", "fake_broker/tests", "conformance/tests", "docs/tests")),
    "audit": (2, ("spark_checks/tests",)),
}
"""The parts of the tests, each with its number of processes and its folders."""


FLOORS = {"aiorocketmq": 96, "aiorocketmq_fake": 96, "aiorocketmq_conformance": 94, "aiorocketmq_audit": 96}
"""Percent of the lines of each package that the tests must execute; subprocesses are not counted."""


def run_tests(session: nox.Session, kind: str, *, measures: bool = False) -> None:
    """Run the tests that the marker expression `kind` selects, all of them even if the first part fails; `--only`
    names a part, other arguments go to pytest instead, for whatever needs no real server.

    With `measures`, all parts together must execute what `FLOORS` says, from Python 3.12 on: there it costs a
    thirtieth, before that it would nearly double the time.
    """
    install(session, "test", extras="all")
    options = argparse.ArgumentParser(prog=f"nox -s {session.name} --", allow_abbrev=False)
    options.add_argument("--only", choices=tuple(PARTS))
    given, further = options.parse_known_args(session.posargs)
    if further:
        session.run("pytest", "-m", "not real", *further)
        return
    coverage: tuple[str, ...] = ()
    if measures:
        script = "import sys; print(sys.version_info >= (3, 12))"
        if str(session.run("python", "-c", script, silent=True)).strip() == "True":
            session.run("coverage", "erase")
            coverage = ("--cov", "--cov-report=", "--cov-append")
        else:
            session.log("SKIPPED the coverage floors: measuring is cheap from Python 3.12 on only.")
    is_passed = True
    for name in (given.only,) if given.only else PARTS:
        processes, paths = PARTS[name]
        try:
            session.run(
                *("pytest", "-m", kind, f"--numprocesses={processes}", "--dist=loadfile", "--durations=20"),
                *coverage,
                *paths,
                env={"COVERAGE_CORE": "sysmon"},
            )
        except CommandFailed:
            is_passed = False
    if not is_passed:
        session.error("Tests failed: see above.")
    if coverage and not given.only:
        for package, floor in FLOORS.items():
            session.run("coverage", "report", f"--include=*/{package}/*", f"--fail-under={floor}")


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests that need only Python (Spark's too: on a Java of the machine or from the package index)."""
    run_tests(session, "not real and not slow", measures=True)


@nox.session
def slow(session: nox.Session) -> None:
    """Run the tests that take a minute or more each: load, kills, clients of other languages, Spark."""
    run_tests(session, "slow and not real")


@nox.session(python=PYTHONS)
def newest(session: nox.Session) -> None:
    """Run the tests on the newest versions of everything, on every Python that this machine has."""
    install(session, "test", extras="all", flags=("--upgrade",))
    session.run("pytest", "-m", "not real", *session.posargs)


@nox.session(python=PYTHONS[0], venv_backend="uv|virtualenv")
def lowest(session: nox.Session) -> None:
    """Run the tests on the lowest versions that pyproject.toml allows: floors are real."""
    session.install("uv>=0.5")
    groups = nox.project.dependency_groups(PROJECT, "test")
    session.run("uv", "pip", "install", "--resolution", "lowest-direct", "-e", ".[all]", *groups)
    session.run("pytest", "-m", "not real", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check format, lint, types and who imports whom."""
    install(session, "lint", "test", "mutation", extras="all")
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("mypy")
    session.run("pyright")
    session.run("lint-imports")


@nox.session
def wire(session: nox.Session) -> None:
    """Generate the wire's descriptors and stubs again and fail if they differ from the committed ones."""
    install(session, "wire", "test", "lint")
    session.run("python", "tools/generate_wire.py", *(session.posargs or ["--check"]))
    session.run("pytest", "-q", "sdk/tests/wire")


@nox.session
def conformance(session: nox.Session) -> None:
    """Judge the fake in all of its profiles; `-- --target HOST:PORT` judges another broker."""
    install(session, extras="conformance")
    if session.posargs:
        session.run("aiorocketmq", "conformance", "run", *session.posargs)
    else:
        for target in ("fake", "fake:apache-5.5", "fake:apache-5.5-cluster"):
            session.run("aiorocketmq", "conformance", "run", "--target", target)


DELIVERED_AFTER_ACK = {"simple.change-batch[once]", "simple.change-batch[twice]"}
"""Cases in which servers whose proxy runs in the broker deliver messages after their acks; the audit sees it."""


@nox.session
def real(session: nox.Session) -> None:
    """Judge a real Apache server, brought by Maven, audit what was recorded of it, and test all clients on it;
    `-- --level all --versions V W`, `-- --only cases` or `tests`."""
    if not java_is_here(session, "the real Apache server"):
        return
    install(session, "test", extras="all")
    # `all` levels are what the command judges without being told.
    options = argparse.ArgumentParser(prog="nox -s real --", allow_abbrev=False)
    options.add_argument("--versions", nargs="+", default=["5.5.0"], metavar="VERSION")
    options.add_argument("--level", default="all")
    options.add_argument("--only", choices=("cases", "tests"))
    # Unknown words go to the command that judges; to pytest if there are tests only.
    given, further = options.parse_known_args(session.posargs)
    levels = [] if given.level == "all" else ["--level", given.level]
    for version in given.versions if given.only != "tests" else ():
        with TemporaryDirectory() as recording, TemporaryDirectory() as judged:
            target = ("--target", f"apache:{version}", "--record", recording)
            session.run("aiorocketmq", "conformance", "run", *target, *levels, *further)
            session.run("aiorocketmq", "audit", recording, "--out", judged, success_codes=[0, 1])
            # Servers before 5.4 garble batches, and all drop empty properties, which cases of all levels send: the
            # audit finds both.
            if not levels or version.startswith(("5.2", "5.3")):
                continue
            summary = json.loads((Path(judged) / "summary.json").read_text())
            findings = [finding for check in summary["checks"] for finding in check["samples"]]
            blamed = {finding["case_id"] for finding in findings if finding["verdict"] == "broken"}
            if unexplained := blamed - DELIVERED_AFTER_ACK:
                session.error(f"The audit found broken promises in {', '.join(sorted(unexplained))}.")
    if given.only == "cases":
        return
    # The cases are run by the command, as users run them; once is enough. What cuts and kills for minutes is left to
    # runs of all levels.
    kind = "real and not slow" if levels else "real"
    session.run(
        *("pytest", "-m", kind, "--ignore=conformance/tests/cases", "--numprocesses=2", "--dist=loadfile"),
        *(further if given.only == "tests" else ()),
        env={"AIOROCKETMQ_REAL_VERSIONS": " ".join(given.versions)},
    )


@nox.session
def containers(session: nox.Session) -> None:
    """Build the fake's image and one of a real server without an image registry, test both in containers and judge
    them; `-- --only tests` or `cases`, `-- --versions V W` (needs Docker or root and dockerd; Java and Maven)."""
    if not java_is_here(session, "the containers"):
        return
    install(session, "test", extras="all")
    session.run("python", "-m", "tools.containers", *session.posargs)


@nox.session
def mutants(session: nox.Session) -> None:
    """Break the fake in one way at a time and name the conformance case that objects."""
    install(session, "test", extras="all")
    session.run("python", "-m", "conformance.tests.mutants", *session.posargs)


@nox.session
def mutation(session: nox.Session) -> None:
    """Judge a sample of machine-made mutants and show the survivors; `-- --package fake|sdk --sample N --seed S`.

    What executes which lines is measured first, for ten minutes or more, unless `.mutation/` has it.
    """
    install(session, "mutation", "test", extras="all")
    if not (HERE / ".mutation" / "coverage.json").exists():
        session.run("python", "-m", "tools.mutation.coverage_map")
    session.run("python", "-m", "tools.mutation", *session.posargs)


@nox.session
def durability(session: nox.Session) -> None:
    """Kill a fake broker with a data folder in the middle of load, 200 times (`-- --times N`: that alone, N times),
    damage 500 data folders (`-- --damage N`: that alone), kill `audit --follow` ten times, and look for losses."""
    install(session, "test", extras="all")
    session.run("python", "-m", "tools.durability", *session.posargs)
    if not session.posargs:
        session.run("python", "-m", "tools.durability", "--damage", "500")
        following = ("spark_checks/tests/test_following.py", "-k", "kill")
        session.run("pytest", *following, env={"AIOROCKETMQ_KILLS": "10"})


@nox.session
def soak(session: nox.Session) -> None:
    """Run all clients for 30 minutes under a fault every few seconds: nothing is lost; `-- --minutes N`, or
    `-- --garble 0.01` for damaged answers instead of faults."""
    install(session, extras="all")
    session.run("python", "-m", "tools.soak", *session.posargs)


@nox.session
def simulation(session: nox.Session) -> None:
    """Run 300 worlds of clients, brokers and faults in virtual time, each a function of its seed; `-- --seeds N`,
    or `-- --seed N --trace` for one of them."""
    install(session, extras="conformance")
    session.run("python", "-m", "tools.simulation", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Measure speed and size in one run, as ratios beside a bare stub and a peer; writes docs/reference/benchmarks."""
    install(session, extras="all")
    session.run("python", "-m", "benchmarks", *session.posargs)


@nox.session
def spark(session: nox.Session) -> None:
    """Run the audits' tests alone."""
    install(session, "test", extras="all")
    session.run("pytest", "spark_checks/tests", *session.posargs)


@nox.session
def cluster(session: nox.Session) -> None:
    """Audit on a Spark cluster on loopback: spark-submit of the wheel, a worker killed, Spark Connect (needs Java);
    `-- --measure --events N` times one worker against two."""
    if shutil.which("java") is None:
        session.log("SKIPPED the cluster: java not found on the path.")
        return
    with TemporaryDirectory() as folder:
        session.install("build")
        session.run("python", "-m", "build", "-q", "--wheel", "--outdir", folder)
        (wheel,) = Path(folder).glob("*.whl")
        session.install("--force-reinstall", "--no-deps", str(wheel))
        session.install(f"aiorocketmq[cli,spark,connect] @ {wheel.as_uri()}")
    session.run("python", "-m", "tools.cluster", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation into site/ with warnings as errors."""
    install(session, "docs", extras="all")
    session.run("sphinx-build", "-W", "--keep-going", "-q", "-b", "html", "docs", "site", *session.posargs)


if __name__ == "__main__":
    os.chdir(HERE)
    nox.main()
