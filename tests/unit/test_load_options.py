"""Commands that the advice names and the `load` cells run, as typed, on histories that need the bypass."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from dump_streams import BASE, DATE, HEAD, file, folder, revision
from project import needs
from vcsbench import sources
from vcsbench.errors import UserError
from vcsbench.measure.prepared_cell import fill_template
from vcsbench.prepare.loader import load_source

pytestmark = needs("svnadmin")

STUDIES = Path(__file__).parents[2] / "config" / "studies"
OLD = {
    "CR LF in a message": HEAD + revision(1, {b"svn:log": b"a\r\nb", b"svn:date": DATE}),
    "a bogus date": HEAD + revision(1, {b"svn:log": b"a", b"svn:date": b"yesterday"}),
    "svn:ignore in Latin-1": HEAD + revision(1) + file(b"f", properties={b"svn:ignore": b"\xe9"}),
}


def advised() -> set[str]:
    """The commands of all questions that load a dump."""
    found: set[str] = set()
    for path in STUDIES.glob("*.yaml"):
        questions: dict[str, Any] = yaml.safe_load(path.read_text()).get("questions") or {}
        for question in questions.values():
            found |= {
                str(one.get("command", "")) for one in (question.get("actions") or {}).values()
            }
    return {command for command in found if "svnadmin load" in command}


def old_repository(path: Path, stream: bytes) -> Path:
    subprocess.run(["svnadmin", "create", path], check=True)
    argv = ["svnadmin", "load", "-q", "--bypass-prop-validation", path]
    subprocess.run(argv, input=stream, check=True)
    return path


@pytest.mark.parametrize(
    "name", [name if "CR" in name else pytest.param(name, marks=pytest.mark.slow) for name in OLD]
)
def test_advised_commands_load_old_repository_as_typed(tmp_path: Path, name: str) -> None:
    old_repository(tmp_path / "OLD", OLD[name] + folder(b"trunk"))
    assert advised()
    for command in advised():
        subprocess.run(["rm", "-rf", tmp_path / "NEW"], check=True)
        argv = ["bash", "-ec", f"set -o pipefail; {command}"]
        subprocess.run(argv, cwd=tmp_path, check=True)
        youngest = subprocess.check_output(["svnlook", "youngest", tmp_path / "NEW"])
        assert int(youngest) == 1


@pytest.mark.parametrize("name", OLD)
def test_load_cell_loads_the_dump_of_a_copy(tmp_path: Path, name: str) -> None:
    old = old_repository(tmp_path / "old", OLD[name] + folder(b"trunk"))
    (tmp_path / "into").mkdir()
    source = sources.open_source("it", {"source": "svn", "path": str(old)})
    facts = load_source(source, [("f8", "nopack")], tmp_path / "into")
    assert len(facts["notes"]) == 1
    subprocess.run(["svnadmin", "verify", "-q", tmp_path / "into/f8.nopack"], check=True)
    dump = subprocess.check_output(["svnadmin", "dump", "-q", tmp_path / "into/f8.nopack"])
    subprocess.run(["svnadmin", "create", tmp_path / "fresh"], check=True)
    study = yaml.safe_load((STUDIES / "fsfs-ssd-2014.yaml").read_text())
    words: dict[str, Any] = {
        "svnadmin": lambda: ["svnadmin"],
        "load_options": lambda: facts["load_options"],
        "load_args": list,
        "fresh": lambda: str(tmp_path / "fresh"),
    }
    argv = fill_template(study["commands"]["load"]["argv"], words)
    subprocess.run(argv, input=dump, check=True)


def test_load_killed_by_the_kernel_names_the_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "svnadmin"
    script.write_text(
        f'#!/bin/sh\n[ "$1" != load ] || kill -{signal.SIGKILL} $$\nexec /usr/bin/svnadmin "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    (tmp_path / "it.dump").write_bytes(BASE)
    (tmp_path / "into").mkdir()
    source = sources.open_source("it", {"source": "dump", "path": str(tmp_path / "it.dump")})
    with pytest.raises(UserError, match=r"SIGKILL.*memory") as caught:
        load_source(source, [("f8", "nopack")], tmp_path / "into")
    assert re.search(r"revision 1 of .*, at byte \d+", str(caught.value))
