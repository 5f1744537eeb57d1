"""A page in a headless Chromium, and scripts that use it."""

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

# Runs `steps` in the loaded page and writes their result into its tree as JSON.
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
  const output = document.createElement("pre");
  output.id = "driven";
  output.textContent = JSON.stringify(answer);
  document.body.append(output);
}})();
</script>"""


@dataclass(frozen=True)
class Visit:
    """A loaded page: its tree, script errors and requests."""

    tree: Element
    errors: list[str]
    requests: list[str]

    @property
    def root(self) -> dict[str, str]:
        return self.tree.all("html")[0].attributes


def browse(
    page: str, folder: Path, *options: str, width: int = 1400
) -> subprocess.CompletedProcess[str]:
    """Run Chromium with a profile below `folder` and without its background requests."""
    command = [
        CHROMIUM,
        *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
        *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
        "--host-resolver-rules=MAP * ~NOTFOUND",  # blocks requests of the browser
        f"--user-data-dir={folder / 'profile'}",
        f"--window-size={width},1000",
        "--virtual-time-budget=30000",
        "--enable-logging=stderr",
        *options,
        page,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def visit(page: Path, folder: Path, width: int = 1400, anchor: str = "") -> Visit:
    log = folder / "net.json"
    options = ("--dump-dom", f"--log-net-log={log}")
    done = browse(f"{page.as_uri()}{anchor}", folder, *options, width=width)
    errors = re.findall(r".*:CONSOLE.*", done.stderr)
    return Visit(parse_dom(done.stdout), errors, requests_in(log))


def drive(
    page: Path, folder: Path, steps: str, anchor: str = "", libraries: str = "", *options: str
) -> Any:
    """Run `steps`, the body of an asynchronous function, in a copy of the page. Return its result."""
    copy = folder / "driven.html"
    script = DRIVER.format(steps=steps, libraries=libraries)
    before, end, after = page.read_text().rpartition("</body>")
    copy.write_text(before + script + end + after)
    done = browse(f"{copy.as_uri()}{anchor}", folder, "--dump-dom", *options)
    answer = json.loads(parse_dom(done.stdout).by_id("driven").text)
    assert not (isinstance(answer, dict) and "error" in answer), answer
    return answer


def parse_dom(dom: str) -> Element:
    # Without the styles and scripts of libraries.
    return parse(re.sub(r"<(script|style)\b.*?</\1>", "", dom, flags=re.DOTALL))


def requests_in(log: Path) -> list[str]:
    """Return the requested addresses of a page. Requests of the browser have no origin."""
    net = json.loads(log.read_text())
    start = net["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    requests = [
        event["params"]
        for event in net["events"]
        if event["type"] == start and "url" in event.get("params", {})
    ]
    return [params["url"] for params in requests if params.get("initiator") != "not an origin"]
