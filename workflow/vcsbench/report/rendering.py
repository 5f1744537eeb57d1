"""The templates of workflow/report, filled in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vcsbench import words

ASSETS = Path(__file__).parents[2] / "report"
# The page's own script, in this order: each uses what those before it define.
SCRIPTS = ("state", "tables", "detail", "page")


def render(template: str, model: Mapping[str, Any], assets: Path = ASSETS) -> str:
    """Fill a template of the folder; everything that is not marked safe is escaped."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(assets),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    texts = {
        "style": (assets / "style.css").read_text(encoding="utf-8"),
        "script": page_script(assets),
    }
    return environment.get_template(template).render(**model, **texts, words=words)


def page_script(assets: Path = ASSETS) -> str:
    """The page's own script, in one."""
    files = (assets / "script" / f"{name}.js" for name in SCRIPTS)
    return "\n".join(file.read_text(encoding="utf-8") for file in files)
