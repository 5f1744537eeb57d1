"""The page of 2,500 cell-rounds: its size, how long it takes to make, and when a browser lets one use it.

usage: python benchmarks/page.py [--keep FILE]
Fakes the results (faked.py), makes the report of them, and opens it in a headless Chromium, in real time.
A reader can use it once a click on a number has opened what stands behind it, a heading has sorted its
column, and a choice above the tables has hidden numbers: counted from the start of the navigation, the
median of VISITS. --keep leaves the page in FILE.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from aggregation import rules
from chromium import CHROMIUM, Chromium
from faked import STUDY, faked_project
from rows import Row, run, show

ROUNDS, VISITS = 5, 5
MB, BUILD_S, INTERACTIVE_S = 4.0, 10.0, 2.0
# Runs in the page; what it awaits lets the browser do whatever else it has to, as between two clicks.
USE = """(async () => {
  const told = () => document.documentElement?.dataset ?? {};
  const turn = () => new Promise((done) => setTimeout(done, 1));
  const until = async (holds) => { while (!holds()) await turn(); return performance.now() / 1000; };
  const ready = await until(() => told().ready);
  document.querySelector("#tables .measured td.behind").click();
  await until(() => detail.open && detail.querySelector("svg.runs"));
  detail.close();
  const head = document.querySelector("#tables .measured th[aria-sort]");
  head.click();
  await until(() => head.getAttribute("aria-sort") === "descending");
  location.hash = "#&only=differs";
  const used = await until(() => document.querySelector("#tables td.out, #tables section[hidden]"));
  const drawn = await until(() => told().charts);
  if (told().error) throw new Error(told().error);
  return { ready, used, drawn };
})()"""


def visits(page: Path) -> dict[str, float]:
    """Seconds until the page is ready, was used, and has drawn its charts; the medians."""
    found = []
    for _ in range(VISITS):
        with tempfile.TemporaryDirectory() as profile, Chromium(Path(profile)) as browser:
            browser.open("about:blank")
            browser.open(page.resolve().as_uri())
            found.append(browser.value(USE))
    return {name: statistics.median(one[name] for one in found) for name in found[0]}


def figures(page: Path, built: float, jobs: int) -> list[Row]:
    """The rows of the table."""
    seen = visits(page)
    size = page.stat().st_size / 1e6
    return [
        Row(f"the page of {jobs:,} cell-rounds", size, MB, "MB", "limit"),
        Row("making it: rule `report`", built, BUILD_S, "s", "limit"),
        Row("its scripts have run", seen["ready"], INTERACTIVE_S, "s", "limit"),
        Row("number opened, column sorted, choice made", seen["used"], INTERACTIVE_S, "s", "limit"),
    ]


def main() -> None:
    """Measure, and print the rows of a table."""
    if not CHROMIUM:
        sys.exit("there is no chromium on the PATH (Debian: chromium)")
    with faked_project(ROUNDS, record=False) as (project, jobs):
        run(project.command(), project.path)
        page = project.path / "reports" / f"{STUDY}.html"
        _, built = rules(project)["report"]
        if "--keep" in sys.argv:
            shutil.copy(page, sys.argv[sys.argv.index("--keep") + 1])
        show(figures(page, built, jobs))


if __name__ == "__main__":
    main()
