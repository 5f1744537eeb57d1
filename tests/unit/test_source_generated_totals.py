"""Generated profiles against the totals of the published repositories, at scale and in full."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vcsbench import sources
from vcsbench.sources import generated_text
from vcsbench.sources.generated import GeneratedTree, History, growth
from vcsbench.sources.generated_profiles import PROFILES

MIB = 1 << 20
WORKFLOW = Path(sources.__file__).parents[2]
# As published: revisions, items (files and directories) and bytes of the exported tree, bytes of
# the repository. None where nothing is published. docs/sources.md says where they are from.
PUBLISHED = {
    "ruby": (46_054, None, 46 * MIB, None),
    "bsd": (263_988, None, 800 * MIB, None),
    "tsvn": (18_937, 3_840, 81 * MIB, 4.8 * 1024 * MIB),  # packed
    "apache": (943_322, 1_941, 38 * MIB, 30.4 * 1024 * MIB),
    "kde": (1_125_690, 399_419, 8.4 * 1024 * MIB, 58.4 * 1024 * MIB),
    "large-tree": (1_002, 27_000, 263 * MIB, None),
    "linux-tree": (2, 22_898, 237_003_064, None),
}
# Scales at which a profile's whole history takes some ten seconds, its texts left out.
SCALES = {
    "ruby": 1,
    "bsd": 0.2,
    "tsvn": 1,
    "apache": 0.1,
    "kde": 0.03,
    "large-tree": 1,
    "linux-tree": 1,
}
FULL = pytest.mark.skipif(
    not os.environ.get("VCSBENCH_FULL_SCALE"), reason="VCSBENCH_FULL_SCALE is not set: six minutes"
)


@pytest.mark.parametrize("profile", PROFILES)
def test_profiles_state_the_published_totals(profile: str) -> None:
    revisions, items, tree_bytes, repository_bytes = PUBLISHED[profile]
    source = sources.open_source("it", {"source": "generated", "profile": profile})
    estimate = source.estimate()
    assert estimate.revisions == revisions
    assert estimate.tree_bytes == pytest.approx(tree_bytes, rel=0.02)
    if items:
        assert estimate.files == pytest.approx(items, rel=0.12)  # without directories
    if repository_bytes:  # published with half-filled blocks
        assert 0.8 < estimate.repository_bytes / repository_bytes < 1.1


def test_a_quarter_of_the_history_has_half_of_the_tree() -> None:
    source = sources.open_source("it", {"source": "generated", "profile": "ruby", "scale": 0.25})
    assert source.estimate().files == pytest.approx(4_263 / 2, rel=0.001)
    assert source.estimate().revisions == 11_514


@pytest.fixture
def without_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts are not put together: their sizes are known without."""
    monkeypatch.setattr(generated_text.Editor, "text", lambda self, kind, text: b"")


def youngest_tree(profile: str, scale: float) -> GeneratedTree:
    """Trunk after a whole history."""
    figures = PROFILES[profile]
    history = History(figures, 1, round(figures.revisions * scale))
    for _ in history.records():
        pass
    return history.trunk()


def check_totals(profile: str, scale: float, within: float) -> None:
    _, items, tree_bytes, _ = PUBLISHED[profile]
    tree = youngest_tree(profile, scale)
    grown = growth(PROFILES[profile], round(PROFILES[profile].revisions * scale))
    assert tree.size == pytest.approx(tree_bytes * grown, rel=within)
    assert len(tree.files) == pytest.approx(PROFILES[profile].tree_files * grown, rel=within)
    if items:
        found = len(tree.files) + len(tree.directories)
        assert found == pytest.approx(items * grown, rel=within)


@pytest.mark.slow
@pytest.mark.usefixtures("without_texts")
@pytest.mark.parametrize("profile", PROFILES)
def test_trees_grow_to_the_published_totals(profile: str) -> None:
    check_totals(profile, SCALES[profile], within=0.04 if SCALES[profile] == 1 else 0.1)


@FULL
@pytest.mark.slow
@pytest.mark.usefixtures("without_texts")
@pytest.mark.parametrize("profile", ["bsd", "apache", "kde"])
def test_trees_at_full_scale_have_the_published_totals(profile: str) -> None:
    check_totals(profile, 1, within=0.04)


def peak_megabytes(profile: str, scale: float) -> int:
    """The peak memory of a process that writes a stream to nowhere."""
    code = (
        "from vcsbench.sources import open_source;"
        f"source = open_source('x', {{'source': 'generated', 'profile': {profile!r}, "
        f"'scale': {scale}}}); source.write(open('/dev/null', 'wb'));"
        # Not ru_maxrss: a child inherits that of the process that started it.
        "lines = dict(line.split(':') for line in open('/proc/self/status'));"
        "print(int(lines['VmHWM'].split()[0]) // 1024)"
    )
    environment = {"PYTHONPATH": str(WORKFLOW)}
    return int(subprocess.check_output([sys.executable, "-c", code], env=environment))


@pytest.mark.slow
def test_memory_does_not_grow_with_the_history() -> None:
    assert peak_megabytes("ruby", 0.2) < peak_megabytes("ruby", 0.01) + 10
    assert peak_megabytes("kde", 0.002) < 80
