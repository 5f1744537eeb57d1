"""Accessibility of the page by axe, in light and dark, and its printed form."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from browser.driver import browse, drive, needs_chromium

AXE = importlib.util.find_spec("axe_core_python")
pytestmark = [
    needs_chromium,
    pytest.mark.skipif(AXE is None, reason="no axe here (envs/setup.sh --test)"),
]
DARK = "--blink-settings=preferredColorScheme=0"

# With all details open: axe reports folded text as text on text.
LOOK = """
document.querySelectorAll("details").forEach((details) => { details.open = true; });
OPEN
const found = await axe.run(
  document,
  { resultTypes: ["violations"], iframes: false });
return {
  dark: matchMedia("(prefers-color-scheme: dark)").matches,
  passed: found.passes.length,
  serious: found.violations.filter((rule) => ["serious", "critical"].includes(rule.impact))
    .map((rule) => [rule.id, rule.nodes.slice(0, 3).map((n) => n.html.slice(0, 300) + n.failureSummary)]),
};
"""
OPEN = 'document.querySelector("td.behind").click();'


def axe() -> str:
    assert AXE
    assert AXE.origin
    script = Path(AXE.origin).with_name("axe.min.js").read_text(encoding="utf-8")
    return re.sub(r"<(?=/script|!--)", r"\\x3c", script)


@pytest.mark.slow
@pytest.mark.parametrize(("options", "dark"), [((), False), ((DARK,), True)])
@pytest.mark.parametrize("opened", ["", OPEN])
def test_page_in_axe_has_no_serious_violation(
    page: Path, tmp_path: Path, options: tuple[str, ...], dark: bool, opened: str
) -> None:
    found = drive(page, tmp_path, LOOK.replace("OPEN", opened), "", axe(), *options)
    assert found["passed"] > 10
    assert found["dark"] is dark
    assert found["serious"] == []


@pytest.mark.slow
def test_page_printed_has_3_to_60_sheets(page: Path, tmp_path: Path) -> None:
    pdf = tmp_path / "page.pdf"
    browse(page.as_uri(), tmp_path, f"--print-to-pdf={pdf}", "--no-pdf-header-footer")
    pages = len(re.findall(rb"/Type\s*/Page\b", pdf.read_bytes()))
    assert 3 < pages < 60
