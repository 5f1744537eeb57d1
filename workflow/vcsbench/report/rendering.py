"""The templates of workflow/report, filled in."""

from __future__ import annotations

import contextlib
import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from vcsbench import words
from vcsbench.wholefile import write_whole

ASSETS = Path(__file__).parents[2] / "report"
# The page's own script, in this order: each uses what those before it define.
SCRIPTS = ("address", "grids", "points", "detail", "filter", "sort", "copy", "charts", "page")

# Without a snippet of ours it makes `vegaEmbed` global.
_BUNDLING = (
    "import sys, vl_convert; sys.stdout.buffer.write(vl_convert.javascript_bundle().encode())"
)
# The one that was made, if one was.
_bundles: list[str] = []


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


def _kept() -> Path:
    """Where the bundle of this vl-convert is kept, or will be."""
    of = importlib.metadata.version("vl-convert-python")
    return Path(sys.prefix) / "share" / "vcsbench" / f"vega-{of}.js"


@contextlib.contextmanager
def bundle_beside() -> Iterator[Callable[[], str]]:
    """What gives Vega, Vega-Lite and Vega-Embed as one script that is safe inside a script element.

    They are put together by a process of its own meanwhile: it takes a second of native code, which would
    keep this one from going on. It is kept beside the packages that it is made of, for the next.
    """
    kept = _kept()
    if not _bundles and kept.exists():
        _bundles.append(kept.read_text(encoding="utf-8"))
    if _bundles:
        yield lambda: _bundles[0]
        return
    with subprocess.Popen([sys.executable, "-c", _BUNDLING], stdout=subprocess.PIPE) as process:

        def bundle() -> str:
            said, _ = process.communicate()
            if process.returncode:
                raise OSError(f"vl_convert gave no bundle: exit code {process.returncode}")
            libraries = said.decode()
            _bundles.append(re.sub(r"<(?=/script|!--)", r"\\x3c", libraries, flags=re.IGNORECASE))
            with contextlib.suppress(OSError):  # of an installation that somebody else owns
                kept.parent.mkdir(parents=True, exist_ok=True)
                write_whole(kept, _bundles[0].encode())
            return _bundles[0]

        try:
            yield bundle
        finally:
            process.kill()
