"""How Sphinx builds the documentation: Markdown pages, and reference pages made from docstrings."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import TYPE_CHECKING

import aiorocketmq
import aiorocketmq_fake
from docutils.nodes import Element

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

project = "aiorocketmq"
author = "the aiorocketmq developers"
project_copyright = "the aiorocketmq developers"
version = release = installed_version("aiorocketmq")

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_click", "docstrings", "llms_text"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["tests"]
default_role = "code"
# Two hyphens begin an option of a command; they are no dash.
smartquotes = False
nitpicky = True
nitpick_ignore_regex = [
    # Other projects, whose inventories a build without a network cannot ask.
    (
        "py:.*",
        r"(abc|anyio|asyncio|collections|contextlib|datetime|enum|os|pathlib|random|ssl|types|typing)\..*",
    ),
    ("py:.*", r"(_?pytest|opentelemetry|redis|pydantic|msgspec|testcontainers)\..*"),
    ("py:.*", r"AbstractContextManager|TracerProvider|MeterProvider|Span|Redis"),
    # Sphinx takes quoted annotations of several parameters apart.
    ("py:.*", r"\w+\[\w+"),
    # Type variables, and what a signature shows of layers that nobody imports from.
    ("py:.*", r"(.*\.)?[A-Z]"),
    ("py:.*", r"aiorocketmq_fake\.(core|edge|options)\..*"),
    ("py:.*", r"aiorocketmq\._\w+\..*|Endpoint|Settler"),
]
# Two classes with a field of one name make the reference to that name ambiguous: no reader is misled.
suppress_warnings = ["ref.python"]

myst_enable_extensions = ["deflist", "colon_fence"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
autodoc_class_signature = "separated"

html_theme = "furo"
html_title = f"aiorocketmq {release}"
# Lines of code have up to 110 columns.
html_static_path = ["_static"]
html_css_files = ["wide.css"]


def find_public_name(app: Sphinx, env: BuildEnvironment, node: Element, shown: Element) -> Element | None:
    """Resolve a name by the module that defines it, as in types, to the one under which users import it."""
    place, _, name = node.get("reftarget", "").rpartition(".")
    package = aiorocketmq_fake if place.startswith("aiorocketmq_fake") else aiorocketmq
    if node.get("refdomain") != "py" or name not in package.__all__:
        return None
    target = f"{package.__name__}.{name}"
    return env.get_domain("py").resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, shown)


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("missing-reference", find_public_name)
