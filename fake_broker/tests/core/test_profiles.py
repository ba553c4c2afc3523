"""The shipped profiles."""

import ast
from dataclasses import fields
from pathlib import Path

import aiorocketmq_fake.core as core
from aiorocketmq_fake.core.values.choices import ALL_RPCS, PULL_RPCS
from aiorocketmq_fake.core.values.profile import Profile
from aiorocketmq_fake.core.values.profiles import APACHE_5_5, DOCUMENTED, PROFILES

CORE = Path(core.__file__).parent


def test_the_profiles_are_found_by_name() -> None:
    assert set(PROFILES) == {"documented", "apache-5.5", "apache-5.5-cluster"}
    assert all(profile.name == name for name, profile in PROFILES.items())


def test_only_the_contract_serves_pulls() -> None:
    assert PULL_RPCS <= DOCUMENTED.served_rpcs <= ALL_RPCS
    assert not PULL_RPCS & APACHE_5_5.served_rpcs


def test_no_module_compares_profile_names() -> None:
    """A behaviour that differs between profiles is a field, never an `if` on a name."""
    for path in CORE.rglob("*.py"):
        if path.name in ("profile.py", "profiles.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr == "name":
                assert "profile" not in ast.unparse(node.value), f"{path.name}:{node.lineno}"


def test_every_field_is_used() -> None:
    """A field that nothing reads would promise a difference that is not there; the edge reads a few."""
    edge_only = {"name", "served_rpcs", "languages", "unspecified_scheme_code", "namespaces_isolate"}
    edge_only |= {"queue_ends_managed", "rights_forgotten"}
    source = "\n".join(path.read_text() for path in CORE.rglob("*.py") if path.name != "profile.py")
    unused = {field.name for field in fields(Profile) if f".{field.name}" not in source} - edge_only
    assert unused == set()


def test_every_field_has_a_docstring_with_its_source() -> None:
    tree = ast.parse((CORE / "values/profile.py").read_text())
    (profile,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Profile"]
    for field, following in zip(profile.body, profile.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign):
            assert isinstance(following, ast.Expr), ast.unparse(field)


def test_the_core_imports_the_standard_library_and_itself_only() -> None:
    for path in CORE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                root = name.split(".")[0]
                assert name.startswith("aiorocketmq_fake.core") or root in {
                    "__future__",
                    "abc",
                    "base64",
                    "binascii",
                    "bisect",
                    "calendar",
                    "collections",
                    "dataclasses",
                    "enum",
                    "functools",
                    "heapq",
                    "hmac",
                    "math",
                    "random",
                    "re",
                    "types",
                    "typing",
                }, f"{path.name} imports {name}"
