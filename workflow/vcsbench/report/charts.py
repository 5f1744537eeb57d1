"""The charts of a page: their data, and their files.

A chart is a specification of Vega-Lite (chart_specs). The page draws it and shows numbers under the pointer.
The charts of cards and of the noise are filtered by the reader's picks. Print, readers without scripts and
papers get the SVG of vl-convert.
"""

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast


@dataclass(frozen=True)
class Chart:
    """A chart: its name in files, its title, and its specification (the JSON object of Vega-Lite).

    `key` is a sentence that explains the marks, "" if they need none.
    """

    name: str
    title: str
    spec: Mapping[str, Any]
    key: str = ""


@dataclass(frozen=True)
class FindingDot:
    """A finding in the plot of findings: its statement (`label`), its verdict as text, and its factors.

    `right_side` is the meaning of a factor above 1, on the right of the plot: `f7 is faster`. `low` and
    `high` are the ends of the 95 % interval. An unknown number is None, and so is an open end of the expected
    range. `texts` has the texts under the pointer, by the keys expected, published, measured and interval.
    """

    label: str
    right_side: str
    verdict: str
    expected_low: float | None
    expected_high: float | None
    published: float | None
    measured: float | None
    low: float | None
    high: float | None
    texts: Mapping[str, str]


@dataclass(frozen=True)
class LinePoint:
    """A point of a line plot.

    `line` is the label of its line, such as `log, f7`. `place` is its position on the horizontal axis, such
    as the number of clients `8` or the baseline `before-upgrade`. `value` is its height, in the metric's
    unit.
    """

    line: str
    place: str
    value: float


@dataclass(frozen=True)
class RoundDot:
    """The time of a cell in the round `number`, in per cent above the cell's mean (negative if below).

    `label` names the cell. `where` has the cell's axis values: the picks filter the dots by them. `seconds`
    is the time as text: `1.24 s`.
    """

    label: str
    where: Mapping[str, str]
    number: int
    deviation_pct: float
    seconds: str


@cache
def script_bundle() -> str:
    """Return the JavaScript of Vega, Vega-Lite and vega-embed, which works offline."""
    # vl_convert takes time to import, and only the jobs that write pages need it.
    import vl_convert

    # Without a snippet of code, the bundle assigns vegaEmbed to the window, as the page's script needs it.
    # The type stub of vl_convert wrongly requires a snippet, so the cast to Any hides the call from mypy.
    bundle = cast(str, cast(Any, vl_convert).javascript_bundle())
    # HTML ends a script element at the first `</script`, even inside a string of JavaScript.
    return bundle.replace("</script", "<\\/script")


def draw(charts: Iterable[Chart]) -> dict[str, str]:
    """Return the SVG of each chart by its name."""
    # Imported here for the same reason as in script_bundle().
    import vl_convert

    return {chart.name: vl_convert.vegalite_to_svg(dict(chart.spec)) for chart in charts}


def image_url(svg: str) -> str:
    """Return an SVG as the address of an image inside the page: `data:image/svg+xml;base64,PHN2...`."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


def write_charts(charts: Iterable[Chart], svgs: Mapping[str, str], folder: Path) -> None:
    """Write each chart as NAME.vl.json, to be changed, and as NAME.svg, for a paper."""
    folder.mkdir(parents=True, exist_ok=True)
    for chart in charts:
        text = json.dumps(chart.spec, indent=1, ensure_ascii=False)
        (folder / f"{chart.name}.vl.json").write_text(text + "\n", encoding="utf-8")
        (folder / f"{chart.name}.svg").write_text(svgs[chart.name], encoding="utf-8")
