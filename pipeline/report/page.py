"""The page: template, style, script and data put into one HTML file that asks for nothing else.

What runs and what does not: the policy in the page's head allows the one script whose hash it names, so neither markup
nor event handlers that slip in would run; and none slip in, because the template escapes and the data is base64.
"""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from pipeline.report.figure import Figure

FOLDER = Path(__file__).resolve().parent / "page"
SCRIPTS = ("data.js", "detail.js", "browser.js")
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
SHOWN_ROWS = 200  # of a figure's numbers; its CSV has all


def render(
    context: dict[str, Any],
    overview: Sequence[Figure],
    sections: Sequence[tuple[str, str, Sequence[Figure]]],
    parts: Iterable[tuple[str, str]],
) -> str:
    """The HTML. `overview`: figures beside the headline table; `sections`: (id, title, figures);
    `parts`: (element id, base64); `context`: the template's other names.
    """
    script = "(() => {\n" + "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in SCRIPTS) + "})();"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"{POLICY}; script-src 'sha256-{digest}'"
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.j2").render(
        **context,
        policy=policy,
        style=Markup((FOLDER / "style.css").read_text(encoding="utf-8")),
        script=Markup(script),
        overview=[_shown(figure) for figure in overview],
        sections=[
            {"id": id, "title": title, "figures": [_shown(figure) for figure in figures]}
            for id, title, figures in sections
            if figures
        ],
        parts=parts,
    )


def visible(text: str) -> str:
    """Text whose invisible and direction-turning characters are spelt out, as the page's script does for the data."""
    return "".join(f"[U+{ord(c):04X}]" if c not in "\n\t" and not c.isprintable() and c != " " else c for c in text)


def _shown(figure: Figure) -> dict[str, Any]:
    listed = figure.rows if len(figure.rows) <= SHOWN_ROWS else []
    return {
        "name": figure.name,
        "title": figure.title,
        "caption": figure.caption,
        "svg": Markup(figure.svg),  # matplotlib's, which escapes the words in it
        "href": "data:text/csv;charset=utf-8," + quote(figure.csv()),
        "table": [[visible(cell) for cell in row] for row in figure.table],
        "columns": figure.columns,
        "rows": [[_cell(value) for value in row] for row in listed],
    }


def _cell(value: Any) -> dict[str, Any]:
    if isinstance(value, float):
        return {"text": f"{value:.4g}" if value == value else "", "number": True}
    return {
        "text": "" if value is None else f"{value:,}" if isinstance(value, int) else str(value),
        "number": isinstance(value, int),
    }
