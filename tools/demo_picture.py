"""Draws docs/demo.svg: what happened to one message of `aiorocketmq demo`.

`python -m tools.demo_picture` runs the demo without audit and cases, and takes the first picture of its page; with
FOLDER, it takes that of the demo's page which is there instead.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "demo.svg"


def picture(page: str) -> str:
    """Return the first picture of a demo's page as a file of its own, with the page's colours and paper."""
    svg = re.search(r'<svg viewBox="0 0 (?P<width>\d+) (?P<height>\d+)"[^>]*>(?P<inside>.*?)</svg>', page)
    style = re.search(r"<style>(?P<text>.*?)</style>", page, re.DOTALL)
    if svg is None or style is None:
        raise ValueError("this is no page of the demo: it has no picture.")
    width, height = int(svg["width"]), int(svg["height"])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f"<style>{style['text']}</style>"
        f'<rect width="{width}" height="{height}" rx="10" style="fill: var(--card)"/>{svg["inside"]}</svg>\n'
    )


def main() -> None:
    """Draw the demo that is in a folder, or a new one."""
    parser = argparse.ArgumentParser(prog="python -m tools.demo_picture", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    folder = parser.parse_args().folder
    with tempfile.TemporaryDirectory() as scratch:
        if folder is None:
            folder = Path(scratch) / "demo"
            command = "import sys; from aiorocketmq.cli import main; sys.argv[0] = 'aiorocketmq'; main()"
            options = ("demo", "--out", str(folder), "--no-spark", "--no-conformance")
            subprocess.run([sys.executable, "-c", command, *options], check=True)
        page = (folder / "index.html").read_text(encoding="utf-8")
    PICTURE.write_text(picture(page), encoding="utf-8")


if __name__ == "__main__":
    main()
