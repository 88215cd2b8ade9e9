"""The page: arrays and text, compressed, in one HTML file without links to others."""

from __future__ import annotations

import base64
import gzip
import html
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import numpy as np

from ..utils.tensor_file import tensor_bytes

#: Joined in this order. Each file is a part of one script.
SCRIPTS = ("data.js", "points.js", "charts.js", "panels.js", "search.js", "main.js")


def render(title: str, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """The HTML of the page.

    Ids, labels and names are in the compressed data, which is base64: no text of the user's files
    is parsed as HTML. The script writes them as text nodes.
    """
    folder = files(__package__) / "assets"
    content = gzip.compress(tensor_bytes(header, arrays), compresslevel=6, mtime=0)
    parts = {
        "title": html.escape(title),
        "style": (folder / "page.css").read_text("utf-8"),
        "script": "\n".join((folder / name).read_text("utf-8") for name in SCRIPTS),
        "data": base64.b64encode(content).decode(),
    }
    template = (folder / "page.html").read_text("utf-8")
    # One pass: what is inserted is not searched for placeholders.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)
