"""What was read of results before is not read again, and what has changed since is."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path

import pytest

from vcsbench.plan import fresh
from vcsbench.run.recovery import mend, note_of

CELL = "results/cells/s/log/f7"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with two results, which a run has looked at; another process looks next."""
    # A file's ctime cannot be set: what was written is old enough at once.
    monkeypatch.setattr(fresh, "GRAIN_NS", 0)
    (tmp_path / ".snakemake").mkdir()
    for number in (1, 2):
        write(tmp_path, number)
    look(tmp_path, monkeypatch)
    return tmp_path


def write(root: Path, number: int) -> None:
    export = root / CELL / f"round{number}.json"
    export.parent.mkdir(parents=True, exist_ok=True)
    content = b'{"results": []}'
    said = {"study": "s", "cell": "log/f7", "recipe_digest": "d"}
    export.write_bytes(content)
    said["export_sha256"] = hashlib.sha256(content).hexdigest()
    export.with_suffix(".context.json").write_text(json.dumps(said))


def look(root: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[str]]:
    """Mend as a process of its own does; what it removed, and the results that it has read."""
    monkeypatch.setattr(fresh, "_known", {})
    read: list[str] = []
    really = fresh._read

    def reads(export: str, context: str) -> fresh.Measured | None:
        read.append(Path(export).name)
        return really(export, context)

    with monkeypatch.context() as patched:
        patched.setattr(fresh, "_read", reads)
        time.sleep(
            0.1
        )  # longer than a tick of the kernel's clock, on a machine that others use too
        removed = mend(root)
    return removed, read


def damage(path: Path) -> None:
    """Other content of the same length, at the same time."""
    at = path.stat()
    path.write_bytes(bytes(at.st_size))
    os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns))


def test_what_was_read_is_not_read_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert look(root, monkeypatch) == ([], [])
    assert fresh.measured_as(root / CELL / "round1.json") == ("s", "log/f7", "d")


@pytest.mark.parametrize("name", ["round1.json", "round1.context.json"])
def test_what_has_changed_is_read_again(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    damage(root / CELL / name)
    removed, read = look(root, monkeypatch)
    assert removed == [f"{CELL}/round1.context.json", f"{CELL}/round1.json"]
    assert set(read) == {"round1.json"}
    assert look(root, monkeypatch) == ([], [])


def test_another_file_under_the_name_is_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("round1.json", "round1.context.json"):
        (root / CELL / name.replace("1", "2")).replace(root / CELL / name)
    assert look(root, monkeypatch) == ([], ["round1.json"])


def test_what_changed_just_before_it_was_read_is_not_trusted(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fresh, "GRAIN_NS", 2_000_000_000)
    write(root, 3)
    assert look(root, monkeypatch) == ([], ["round3.json"])
    assert "round3.json" in look(root, monkeypatch)[1]


def test_after_a_start_of_the_machine_all_is_read(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fresh, "_boot", lambda: "another")
    assert sorted(look(root, monkeypatch)[1]) == ["round1.json", "round2.json"]


@pytest.mark.parametrize("torn", [b"", b"{", b"[]", b'{"boot": 1}', bytes(400)])
def test_a_torn_note_of_ours_is_none(
    root: Path, monkeypatch: pytest.MonkeyPatch, torn: bytes
) -> None:
    (root / fresh.INDEX).write_bytes(torn)
    assert sorted(look(root, monkeypatch)[1]) == ["round1.json", "round2.json"]
    assert look(root, monkeypatch) == ([], [])


def test_a_torn_note_of_snakemakes_is_seen_when_it_is_new(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = note_of(root, "results/tables/s/a.csv")
    note.parent.mkdir()
    note.write_text("{}")
    assert look(root, monkeypatch) == ([], [])
    damage(note)
    assert look(root, monkeypatch)[0] == ["results/tables/s/a.csv"]
    assert not note.exists()


def test_a_clock_that_was_set_back_hides_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = json.loads((root / fresh.INDEX).read_text())
    (root / fresh.INDEX).write_text(json.dumps({**said, "until": 2 * said["until"]}))
    note = note_of(root, "results/tables/s/a.csv")
    note.parent.mkdir()
    note.write_bytes(bytes(10))
    assert look(root, monkeypatch)[0] == ["results/tables/s/a.csv"]
