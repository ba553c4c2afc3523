"""Writes the documentation for language models beside the HTML: llms.txt lists pages, llms-full.txt has their text.

Pages are their Markdown; those made from docstrings are rendered, since their Markdown is a list of names.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx import addnodes
from sphinx.builders.text import TextBuilder
from sphinx.writers.text import TextTranslator

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

SUMMARY = (
    "The asyncio toolkit for RocketMQ 5: client, fake broker for tests, conformance suite, delivery audits."
)

LISTED_ONLY = {
    f"reference/{page}" for page in ("matrix", "profile-fields", "benchmarks", "remoting-speed", "soak")
}
"""Tables of measurements: a third of all text, which answers no question about use."""


def sections(env: BuildEnvironment) -> Iterator[tuple[str, list[str]]]:
    """The captions of the first page's tables of contents, each with its pages."""
    root = env.get_doctree(env.config.root_doc)
    for toctree in root.findall(addnodes.toctree):
        yield toctree["caption"], [page for _, page in toctree["entries"]]


def with_children(env: BuildEnvironment, page: str) -> Iterator[str]:
    """A page and those below it."""
    yield page
    for child in env.toctree_includes.get(page, ()):
        yield from with_children(env, child)


def first_sentence(env: BuildEnvironment, page: str) -> str:
    """The first sentence of a page's text."""
    paragraph = next(iter(env.get_doctree(page).findall(nodes.paragraph)), None)
    text = " ".join(paragraph.astext().split()) if paragraph is not None else ""
    return text.partition(". ")[0].rstrip(".:")


def text_of(app: Sphinx, page: str) -> str:
    """The text of a page: its Markdown, or what was made of its docstrings."""
    source = Path(app.env.doc2path(page)).read_text(encoding="utf-8")
    if "{eval-rst}" not in source:
        return source
    builder = TextBuilder(app, app.env)
    builder.secnumbers = {}
    doctree = app.env.get_and_resolve_doctree(page, builder, tags=app.tags)
    translator = TextTranslator(doctree, builder)
    doctree.walkabout(translator)
    return translator.body


def write(app: Sphinx, error: Exception | None) -> None:
    """Write both files when the HTML is complete."""
    if error is not None or app.builder.format != "html":
        return
    env = app.env
    listed = [
        f"# {app.config.project}\n\n> {SUMMARY}\n\nAll pages in one file: [llms-full.txt](llms-full.txt)\n"
    ]
    full = [text_of(app, env.config.root_doc)]
    for caption, pages in sections(env):
        listed.append(f"\n## {caption}\n\n")
        for page in pages:
            title = env.titles[page].astext()
            listed.append(f"- [{title}]({page}.html): {first_sentence(env, page)}\n")
            if page not in LISTED_ONLY:
                full += [text_of(app, each) for each in with_children(env, page)]
    out = Path(app.outdir)
    (out / "llms.txt").write_text("".join(listed), encoding="utf-8")
    (out / "llms-full.txt").write_text("\n\n---\n\n".join(full), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("build-finished", write)
    return {"parallel_read_safe": True}
