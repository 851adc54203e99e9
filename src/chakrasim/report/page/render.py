"""A page as one HTML file."""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Final

from chakrasim.files.outputs import write_whole
from chakrasim.report.page.parts import Page

_ESCAPES: Final = str.maketrans({c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})
_LONE: Final = re.compile("[\ud800-\udfff]")


def write_page(path: str | os.PathLike[str], page: Page) -> None:
    """Write the page to ``path``, whole or not at all. Raises InputError if that fails."""
    write_whole(path, page_html(page).encode())


def page_html(page: Page) -> str:
    """The page; the same page gives the same text."""
    scripts = [_asset("echarts.min.js"), *map(_asset, ("amounts.js", "charts.js", "page.js"))]
    style = _asset("page.css")
    allowed = " ".join(map(_hash, scripts))
    policy = f"default-src 'none'; script-src {allowed}; style-src {_hash(style)}; img-src data:; base-uri 'none'"
    text = "\n".join(f"<script>{script}</script>" for script in scripts)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="chakrasim">
<title>chakrasim</title>
<style>{style}</style>
</head>
<body>
<main id="page"><noscript>This page is drawn by scripts of its own, which the browser does not run.</noscript></main>
<script type="application/json" id="data">{_data(page)}</script>
{text}
</body>
</html>
"""


def _data(page: Page) -> str:
    """The content as JSON that no HTML can be hidden in. A figure that is no number is an error: JSON has none."""
    text = json.dumps(page.to_dict(), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return _LONE.sub("\ufffd", text).translate(_ESCAPES)


@cache
def _asset(name: str) -> str:
    """A script or style of this folder. Addresses in it (names of XML's namespaces, of licences) are spelled so that
    nobody who looks for addresses in a page takes them for some."""
    text = (files("chakrasim.report.page") / "assets" / name).read_text(encoding="utf-8")
    return text.replace("://", ":\\/\\/") if name.endswith(".js") else text


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
