"""Fill the templates of pages. A page is one file that requests nothing."""

import base64
import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from vcsbench import words
from vcsbench.advice.labels import factor, seconds, value_label
from vcsbench.axes.cache_states import pictograms
from vcsbench.report import summary
from vcsbench.report.card_rows import flag_key
from vcsbench.report.results import values_label

ASSETS = Path(__file__).parents[2] / "report"
# In this order: each script uses those before it.
SCRIPTS = ("state", "tables", "charts", "detail", "page")


def render(template: str, content: Mapping[str, object], scripts: Sequence[str] = ()) -> str:
    """Return the HTML of a template with inline `scripts`. The keys of `content` are names in the template.

    `template` is a file in ASSETS, such as `report.html.jinja`. All text is escaped unless the template marks
    it as safe, because texts of results are not to be trusted. Raise jinja2.UndefinedError for an unknown
    name in the template.
    """
    # Jinja takes time to import, and only the jobs that write pages need it.
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(ASSETS),
        autoescape=True,
        # By default, Jinja would print an unknown name of the template as an empty text.
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = (ASSETS / "style.css").read_text(encoding="utf-8")
    # The policy of the page allows no attribute `style`, so a width in per cent needs a class: `bar42`.
    for share in range(1, 101):
        style += f".bar{share} {{ --bar: {share}%; }}\n"
    return environment.get_template(template).render(
        **content,
        # Functions and texts that the templates use.
        label=value_label,
        values_label=values_label,
        factor=factor,
        seconds=seconds,
        flag_key=flag_key,
        describe_verdicts=summary.describe_verdicts,
        words=words,
        pictograms=pictograms(),
        policy=content_policy(scripts, [style]),
        style=style,
        scripts=scripts,
    )


def read_scripts() -> str:
    """Return the script of a study's page."""
    scripts = [(ASSETS / "script" / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS]
    return "\n".join(scripts)


def content_policy(scripts: Iterable[str], styles: Iterable[str]) -> str:
    """Return a Content-Security-Policy that allows these inline scripts and styles, by their digests.

    A script that a text of the results injects does not run, and the page makes no request.
    """
    directives = [
        "default-src 'none'",
        f"script-src {_allowed_digests(scripts)}",
        f"style-src {_allowed_digests(styles)}",
        "img-src data:",
        # default-src does not cover these two.
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join(directives)


def _allowed_digests(contents: Iterable[str]) -> str:
    """Return `'sha256-...' 'sha256-...'`, or `'none'` without any content."""
    sources = []
    for content in contents:
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        sources.append(f"'sha256-{digest}'")
    return " ".join(sources) if sources else "'none'"


def pack_json(content: Mapping[str, object]) -> str:
    """Return gzipped JSON in base64, which the script of a page reads. Equal content gives equal text."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # By default, the header of gzip has the present time (`mtime`), and each page would differ.
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()
