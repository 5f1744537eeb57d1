"""Vega's bundle is made once for each installation, and kept."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from vcsbench.report import rendering


def bundled() -> str:
    with rendering.bundle_beside() as bundle:
        return bundle()


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a bundle is kept, of which there is none yet."""
    path = tmp_path / "share" / "vega.js"
    monkeypatch.setattr(rendering, "_kept", lambda: path)
    monkeypatch.setattr(rendering, "_bundles", [])
    return path


def test_another_process_finds_what_was_bundled(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bundled()
    assert "vegaEmbed" in made and "</script" not in made.lower()
    assert kept.read_text(encoding="utf-8") == made
    monkeypatch.setattr(rendering, "_bundles", [])
    monkeypatch.setattr(subprocess, "Popen", None)
    assert bundled() == made


def test_where_nothing_can_be_kept_it_is_bundled_each_time(kept: Path) -> None:
    kept.parent.write_text("no folder")
    assert "vegaEmbed" in bundled()


def test_another_version_is_another_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    here = rendering._kept()
    monkeypatch.setattr(rendering.importlib.metadata, "version", lambda _: "0.1")
    assert rendering._kept().name == "vega-0.1.js" != here.name
