"""Every import contract of pyproject.toml holds, and objects when a bad import is planted."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = {
    "aiorocketmq": "sdk",
    "aiorocketmq_fake": "fake_broker",
    "aiorocketmq_conformance": "conformance",
    "aiorocketmq_audit": "spark_checks",
}
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRACTS = [contract["id"] for contract in CONFIG["tool"]["importlinter"]["contracts"]]

# contract -> (file the bad line goes into, the bad line)
PLANTS = {
    "client-stands-alone": ("aiorocketmq/config.py", "import aiorocketmq_fake"),
    "fake-shares-only-the-wire": ("aiorocketmq_fake/edge/planted.py", "import aiorocketmq.config"),
    "audit-reads-files-only": ("aiorocketmq_audit/planted.py", "import aiorocketmq.errors"),
    "recording-format-stands-alone": ("aiorocketmq/recording_format.py", "import aiorocketmq.hooks"),
    "nothing-imports-the-audit": ("aiorocketmq_conformance/planted.py", "import aiorocketmq_audit.cli"),
    "audit-stands-alone": ("aiorocketmq_audit/planted.py", "import aiorocketmq_fake.core"),
    "cores-only-decide": ("aiorocketmq_fake/core/planted.py", "import time"),
    "fake-edge-over-core": ("aiorocketmq_fake/core/planted.py", "import aiorocketmq_fake.edge"),
    "fake-core-layers": ("aiorocketmq_fake/core/values/planted.py", "import aiorocketmq_fake.core.state"),
    "core-under-everything": ("aiorocketmq/_core/planted.py", "import aiorocketmq.wire"),
    "client-layers": ("aiorocketmq/_aio/planted.py", "import aiorocketmq._session.session"),
    "conformance-layers": (
        "aiorocketmq_conformance/cases/consume/push.py",
        "import aiorocketmq_conformance.targets.fake",
    ),
    "model-only-judges": ("aiorocketmq_conformance/model/planted.py", "import aiorocketmq_fake.core.values"),
    "cases-stand-alone": (
        "aiorocketmq_conformance/cases/lite/topics.py",
        "import aiorocketmq_conformance.cases.order.push",
    ),
    "servers-know-no-cases": (
        "aiorocketmq_conformance/targets/apache/jars.py",
        "import aiorocketmq_conformance.probe.clock",
    ),
    "grpc-behind-the-transport": ("aiorocketmq/planted.py", "import grpc"),
    "no-cycles": ("aiorocketmq/errors.py", "import aiorocketmq.message"),
}


def lint_imports(root: Path, *contracts: str) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the packages under `root`."""
    selected = [word for contract in contracts for word in ("--contract", contract)]
    code = f"import sys; sys.path[:0] = {[str(root)]!r}; from importlinter.cli import lint_imports_command as c; c()"
    return subprocess.run(
        [sys.executable, "-c", code, "--config", "pyproject.toml", "--no-cache", *selected],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the four packages and of the contracts, to plant bad imports in."""
    for package, folder in PACKAGES.items():
        shutil.copytree(
            ROOT / folder / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_every_contract_has_a_planted_import() -> None:
    assert sorted(PLANTS) == sorted(CONTRACTS)


def test_all_contracts_hold(checkout: Path) -> None:
    result = lint_imports(checkout)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"Contracts: {len(CONTRACTS)} kept, 0 broken." in result.stdout


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_planted_import_breaks_its_contract(checkout: Path, contract: str) -> None:
    file, line = PLANTS[contract]
    path = checkout / file
    before = path.read_text(encoding="utf-8") if path.exists() else '"""Planted."""\n'
    path.write_text(f"{before}\n{line}\n", encoding="utf-8")
    result = lint_imports(checkout, contract)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "0 kept, 1 broken." in result.stdout
