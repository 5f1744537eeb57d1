"""A real Subversion repository as a source."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from git_histories import ENVIRONMENT, digest, listing, write_and_load
from vcsbench import sources
from vcsbench.errors import UserError
from vcsbench.sources import Source
from vcsbench.sources.svn_source import revision_bytes

pytestmark = pytest.mark.skipif(not shutil.which("svnadmin"), reason="not installed: svnadmin")


def svn_source(path: Path | str, **options: str) -> Source:
    return sources.open_source("mine", {"source": "svn", "path": str(path), **options})


def refusal(path: Path, **options: str) -> str:
    with pytest.raises(UserError) as caught:
        svn_source(path, **options).check()
    return str(caught.value)


def svnmucc(path: Path, *words: str, text: bytes = b"") -> None:
    subprocess.run(
        ["svnmucc", "-m", "A message.", "-U", f"file://{path}", "--", *words],
        input=text, check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT,
    )  # fmt: skip


def dumped(path: Path) -> bytes:
    """The repository's dump without its UUID."""
    done = subprocess.run(["svnadmin", "dump", "-q", path], check=True, stdout=subprocess.PIPE)
    return re.sub(rb"\nUUID: .*\n", b"\n", done.stdout, count=1)


def make_repository(path: Path) -> Path:
    """Four revisions: the layout, two files, a property and a tag."""
    subprocess.run(["svnadmin", "create", path], check=True)
    svnmucc(path, "mkdir", "trunk", "mkdir", "tags")
    svnmucc(path, "put", "-", "trunk/one", text=bytes(range(256)))
    svnmucc(path, "propset", "note", "é", "trunk", "put", "/dev/null", "trunk/é")
    svnmucc(path, "cp", "HEAD", "trunk", "tags/1")
    return path


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_repository(tmp_path_factory.mktemp("svn") / "repository")


def test_what_is_written_makes_the_same_repository(repository: Path, tmp_path: Path) -> None:
    facts = write_and_load(svn_source(repository), tmp_path / "copy")
    assert (facts.revisions, facts.notes) == (4, [])
    assert dumped(tmp_path / "copy") == dumped(repository)


def test_the_same_bytes_each_time_and_nothing_written(repository: Path) -> None:
    source = svn_source(repository)
    before = listing(repository)
    source.check()
    source.identity()
    source.estimate()
    source.describe()
    assert digest(source) == digest(svn_source(repository))
    assert listing(repository) == before


def test_identity_changes_with_a_commit_and_with_the_repository(tmp_path: Path) -> None:
    first = make_repository(tmp_path / "first")
    second = make_repository(tmp_path / "second")
    before = svn_source(first).identity()
    assert svn_source(first).identity() == before != svn_source(second).identity()
    svnmucc(first, "rm", "trunk/one")
    assert svn_source(first).identity() != before
    assert svn_source(first).write(io.BytesIO()).revisions == 5


def test_a_url_of_a_local_repository_is_its_path(repository: Path) -> None:
    assert svn_source(f"file://{repository}").identity() == svn_source(repository).identity()


def test_the_tree_is_trunk_where_there_is_one(repository: Path, tmp_path: Path) -> None:
    assert svn_source(repository).tree() == "trunk"
    assert svn_source(repository, tree="/tags/1/").tree() == "tags/1"
    assert svn_source(repository, tree="/").tree() == ""
    for name, words in {"flat": ["mkdir", "trunk2"], "file": ["put", "-", "trunk"]}.items():
        subprocess.run(["svnadmin", "create", tmp_path / name], check=True)
        svnmucc(tmp_path / name, *words)
        assert svn_source(tmp_path / name).tree() == ""


def test_what_is_no_history_is_refused(repository: Path, tmp_path: Path) -> None:
    subprocess.run(["svnadmin", "create", tmp_path / "empty"], check=True)
    (tmp_path / "file").write_text("format")
    where = "config/config.yaml: repositories.mine.path: "
    assert refusal(tmp_path / "none") == f"{where}{tmp_path}/none does not exist"
    assert refusal(tmp_path / "empty") == f"{where}{tmp_path}/empty is empty: it has no revision 1"
    for path in (tmp_path, tmp_path / "file", repository / "db"):
        assert refusal(path) == f"{where}{path} is not a Subversion repository"


def test_a_damaged_repository_is_refused(tmp_path: Path) -> None:
    path = make_repository(tmp_path / "damaged")
    (path / "db/current").write_text("not a number\n")
    assert "db/current: 'not' is no number from 0" in refusal(path)
    (path / "db/current").write_text("4\n")
    victim = path / "db/revs/0/2"
    victim.chmod(0o644)
    victim.write_bytes(victim.read_bytes()[:40])
    with pytest.raises(UserError, match="svnadmin dump failed: "):
        svn_source(path).write(io.BytesIO())


def test_a_tree_that_is_not_there_is_refused(repository: Path) -> None:
    assert ".tree: " in refusal(repository, tree="branches")
    assert "has no folder 'branches'" in refusal(repository, tree="branches")
    assert "has no folder 'trunk/one'" in refusal(repository, tree="trunk/one")
    with pytest.raises(UserError, match=r"repositories\.mine\.tree: must be a path"):
        sources.open_source("mine", {"source": "svn", "path": str(repository), "tree": 3})
    with pytest.raises(UserError, match=r"repositories\.mine\.branch: is no key"):
        svn_source(repository, branch="main")


@pytest.mark.parametrize("shards", [1, 3, 20, 100])
def test_estimates_are_made_from_a_sample_of_the_shards(tmp_path: Path, shards: int) -> None:
    for shard in range(shards):
        (tmp_path / f"{shard}").mkdir()
        for number in range(4):
            (tmp_path / f"{shard}" / f"{number}").write_bytes(b"x" * 25)
    assert revision_bytes(tmp_path) == 100 * shards
