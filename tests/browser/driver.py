"""A page in a headless Chromium, and scripts that use it."""

import base64
import hashlib
import html
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="no chromium here (Debian: chromium)")

# Runs `steps` in the loaded page and writes their result into its tree as JSON.
DRIVER = """<script>
{libraries}
(async () => {{
  // Timers run in the browser's virtual time, which passes at once. Messages take real time, which a step
  // back in the history needs on a busy machine.
  const channel = new MessageChannel();
  const message = () => new Promise((done) => {{
    channel.port1.onmessage = done;
    channel.port2.postMessage(0);
  }});
  const until = async (holds) => {{
    for (let n = 0; n < 400 && !holds(); n += 1) {{
      for (let turn = 0; turn < 500 && !holds(); turn += 1) await message();
      await new Promise((done) => setTimeout(done, 25));
    }}
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
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)


def allow_script(page: str, element: str) -> str:
    """Return a page whose policy allows the content of a script element, too."""
    content = element.removeprefix("<script>").removesuffix("</script>")
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    return page.replace("script-src ", f"script-src 'sha256-{digest}' ", 1)


def drive(
    page: Path,
    folder: Path,
    steps: str,
    *,
    anchor: str = "",
    libraries: str = "",
    options: Sequence[str] = (),
    is_quiet: bool = True,
) -> Any:
    """Run `steps`, the body of an asynchronous function, in a copy of the page. Return its result.

    `anchor` is the end of the address, such as `#access=svn`. `libraries` are scripts for the steps,
    `options` those of Chromium. The page must cause no error, and request nothing: its policy makes a
    request an error. Without `is_quiet`, the messages of the console do not matter.
    """
    copy = folder / "driven.html"
    script = DRIVER.format(steps=steps, libraries=libraries)
    text = allow_script(page.read_text(), script)
    before, end, after = text.rpartition("</body>")
    copy.write_text(before + script + end + after)
    done = browse(f"{copy.as_uri()}{anchor}", folder, "--dump-dom", *options)
    if is_quiet:
        assert re.findall(r".*:CONSOLE.*", done.stderr) == []
    (text,) = re.findall(r'<pre id="driven">(.*?)</pre>', done.stdout, re.DOTALL)
    answer = json.loads(html.unescape(text))
    assert not (isinstance(answer, dict) and "error" in answer), answer
    return answer
