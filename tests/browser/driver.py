"""A page in a headless Chromium, and a script that uses it as a reader would."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from unit.html_tree import Element, parse

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="no chromium here (Debian: chromium)")

# Runs `steps` once the page is ready; what they return is left in the page's own tree, as JSON.
DRIVER = """<script>
{libraries}
(async () => {{
  const until = async (holds) => {{
    for (let n = 0; n < 400 && !holds(); n += 1) await new Promise((done) => setTimeout(done, 25));
    if (!holds()) throw new Error(`never came true: ${{holds}}`);
  }};
  const root = document.documentElement;
  const press = (key, on = document.activeElement) => on.dispatchEvent(
    new KeyboardEvent("keydown", {{ key, bubbles: true, cancelable: true }}));
  const all = (selector) => [...document.querySelectorAll(selector)];
  const seen = (element) => element.checkVisibility({{ visibilityProperty: true }});
  let answer;
  try {{
    await until(() => root.dataset.ready);
    answer = await (async () => {{ {steps} }})();
  }} catch (error) {{
    answer = {{ error: String(error) }};
  }}
  const told = document.createElement("pre");
  told.id = "driven";
  told.textContent = JSON.stringify(answer);
  document.body.append(told);
}})();
</script>"""


@dataclass(frozen=True)
class Visit:
    """What a browser made of a page: its tree, its script errors, what it asked for."""

    tree: Element
    errors: list[str]
    requests: list[str]

    @property
    def root(self) -> dict[str, str]:
        return self.tree.all("html")[0].attributes


def browse(
    page: str, folder: Path, *options: str, width: int = 1400
) -> subprocess.CompletedProcess[str]:
    """Chromium with a profile below `folder`, which asks for nothing of its own."""
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--host-resolver-rules=MAP * ~NOTFOUND",  # the browser's own requests stay at home, too
        f"--user-data-dir={folder / 'profile'}",
        f"--window-size={width},1000",
        "--virtual-time-budget=30000",
        "--enable-logging=stderr",
        *options,
        page,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def visit(page: Path, folder: Path, width: int = 1400, anchor: str = "") -> Visit:
    """The page as a browser leaves it."""
    log = folder / "net.json"
    options = ("--dump-dom", f"--log-net-log={log}")
    done = browse(f"{page.as_uri()}{anchor}", folder, *options, width=width)
    errors = re.findall(r".*:CONSOLE.*", done.stderr)
    return Visit(parse_dom(done.stdout), errors, requests_in(log))


def drive(
    page: Path, folder: Path, steps: str, anchor: str = "", libraries: str = "", *options: str
) -> Any:
    """What `steps`, the body of an asynchronous function, return in a copy of the page."""
    copy = folder / "driven.html"
    script = DRIVER.format(steps=steps, libraries=libraries)
    before, end, after = page.read_text().rpartition("</body>")
    copy.write_text(before + script + end + after)
    done = browse(f"{copy.as_uri()}{anchor}", folder, "--dump-dom", *options)
    answer = json.loads(parse_dom(done.stdout).by_id("driven").text)
    assert not (isinstance(answer, dict) and "error" in answer), answer
    return answer


def parse_dom(dom: str) -> Element:
    # A browser's tree has libraries' styles and scripts in it, which are no concern here.
    return parse(re.sub(r"<(script|style)\b.*?</\1>", "", dom, flags=re.DOTALL))


def requests_in(log: Path) -> list[str]:
    """The addresses that a page asked for; the browser's own requests have no origin."""
    net = json.loads(log.read_text())
    start = net["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    asked = [
        event["params"]
        for event in net["events"]
        if event["type"] == start and "url" in event.get("params", {})
    ]
    return [params["url"] for params in asked if params.get("initiator") != "not an origin"]
