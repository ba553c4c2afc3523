"""How Sphinx builds the documentation: Markdown pages, and reference pages made from docstrings."""

from importlib.metadata import version as installed_version

project = "aiorocketmq"
author = "the aiorocketmq developers"
project_copyright = "the aiorocketmq developers"
version = release = installed_version("aiorocketmq")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["tests"]
default_role = "code"
nitpicky = False

myst_enable_extensions = ["deflist", "colon_fence"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_class_signature = "separated"

html_theme = "furo"
html_title = f"aiorocketmq {release}"
