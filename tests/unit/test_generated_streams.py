"""A generated history has the same trees in Subversion and in git: on all refs, and at sampled revisions."""

import io
import re
import subprocess

import pytest

from git_histories import DIR, exported, git, run, tree_on_disk
from project import needs, slow
from vcsbench import sources
from vcsbench.errors import UserError
from vcsbench.sources.generated_events import (
    FastImportWriter,
    FileAdded,
    ProjectAdded,
    RevisionBegun,
)
from vcsbench.sources.generated_profiles import ProjectLayout
from vcsbench.systems import fsfs

pytestmark = needs("svn", "svnadmin", "git")

# With branches, tags, other projects, moved folders and executable files.
SCALES = {"ruby": 0.01, "tsvn": 0.003, "apache": 0.0003, "kde": 0.00002, "git": 0.01}
SAMPLED = 4


def load(folder, profile, scale):
    """Return a Subversion and a git repository with a generated history, and the commit of each revision."""
    definition = {"source": "generated", "profile": profile, "scale": scale}
    fsfs.create(folder / "svn", "f8")
    dump, stream = io.BytesIO(), io.BytesIO()
    sources.open_source("it", definition).write(dump)
    sources.open_source("it", definition).write_fast_import(stream)
    run("svnadmin", "load", "-q", folder / "svn", stdin=dump.getvalue())
    marks = folder / "marks"
    (folder / "git").mkdir()
    git(folder / "git", "init", "-q", "--bare")
    options = ("--quiet", "--done", f"--export-marks={marks}")
    git(folder / "git", "fast-import", *options, stdin=stream.getvalue())
    lines = (line.split() for line in marks.read_text().splitlines())
    return folder / "svn", folder / "git", {int(mark[1:]): commit for mark, commit in lines}


def files_of(tree):
    """Return a tree without its folders: git has no empty ones."""
    return {path: entry for path, entry in tree.items() if entry != DIR}


def git_files(repository, commit, folder):
    folder.mkdir()
    archive = git(repository, "archive", commit)
    subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
    return files_of(tree_on_disk(folder))


def paths_of_refs(repository, first):
    """Return the path in Subversion of each ref. `first` is the prefix of the first project's paths."""
    pattern = re.compile(r"((?:[a-z]+\d*/)?)(?:(trunk)|branches/([^/]+)|tags/([^/]+))/")
    paths = {}
    for line in run("svnlook", "tree", "--full-paths", repository).decode().splitlines():
        if match := pattern.fullmatch(line):
            project, trunk, branch, tag = match.groups()
            kind = "tags" if tag else "heads"
            prefix = project.removeprefix(first)
            paths[f"refs/{kind}/{prefix}{trunk or branch or tag}"] = line.rstrip("/")
    return paths


# The tree of kde takes half a minute.
PROFILES = [name if name == "apache" else slow(name) for name in SCALES]


@pytest.mark.parametrize("profile", PROFILES)
def test_dump_and_fast_import_streams_make_equal_trees(tmp_path, profile):
    svn, repository, commits = load(tmp_path, profile, SCALES[profile])
    paths = paths_of_refs(svn, "subversion/" if profile == "apache" else "")
    refs = git(repository, "for-each-ref", "--format=%(refname)").decode().split()
    assert "refs/heads/trunk" in refs and set(refs) == set(paths)
    run("svn", "export", "-q", f"file://{svn}", tmp_path / "all")
    for number, ref in enumerate(refs):
        expected = files_of(tree_on_disk(tmp_path / "all" / paths[ref]))
        assert git_files(repository, ref, tmp_path / f"git{number}") == expected
    # The commit of a revision that changes trunk has the tree that trunk has then.
    in_trunk = git(repository, "rev-list", "refs/heads/trunk").decode().split()
    revisions = sorted(number for number, commit in commits.items() if commit in in_trunk)
    for number in revisions[:: max(1, len(revisions) // SAMPLED)]:
        expected = files_of(exported(svn, number, paths["refs/heads/trunk"]))
        assert expected
        assert git_files(repository, commits[number], tmp_path / f"git-r{number}") == expected


@pytest.mark.slow
def test_fast_import_has_branches_tags_and_executable_files(tmp_path):
    _, repository, _ = load(tmp_path, "ruby", SCALES["ruby"])
    refs = git(repository, "for-each-ref", "--format=%(objecttype) %(refname)")
    assert refs.count(b"commit refs/heads/") > 1 and b"tag refs/tags/" in refs
    assert b"100755 blob" in git(repository, "ls-tree", "-r", "refs/heads/trunk")
    person = git(repository, "log", "-1", "--format=%an %ae %cI", "refs/heads/trunk").decode()
    assert re.fullmatch(r"(\w+) \1@localhost 1998-\S+T\S+\+00:00\n", person)


def test_empty_source_makes_one_commit_of_an_empty_tree(tmp_path):
    stream = io.BytesIO()
    sources.open_source("empty", {"source": "empty"}).write_fast_import(stream)
    git(tmp_path, "init", "-q", "--bare")
    git(tmp_path, "fast-import", "--quiet", "--done", stdin=stream.getvalue())
    assert git(tmp_path, "ls-tree", "refs/heads/trunk") == b""
    assert git(tmp_path, "rev-list", "--count", "--all") == b"1\n"


def test_source_without_fast_import_is_refused_with_remedy(tmp_path):
    fsfs.create(tmp_path / "svn", "f8")
    source = sources.open_source("it", {"source": "svn", "path": str(tmp_path / "svn")})
    with pytest.raises(UserError, match=r"history: as-is.*Use one"):
        source.write_fast_import(io.BytesIO())


def test_fast_import_refuses_a_revision_that_changes_two_branches():
    writer = FastImportWriter(io.BytesIO())
    layout = ProjectLayout(b"trunk", (b"branches",), (b"tags",))
    other = ProjectLayout(b"x1/trunk", (b"x1/branches",), (b"x1/tags",))
    begun = RevisionBegun(1, b"2005-05-05T05:05:05.000000Z", b"ann", b"A message.")
    added = [FileAdded(path, False, {}, b"") for path in (b"trunk/a", b"x1/trunk/a")]
    with pytest.raises(ValueError, match="two branches"):
        writer.write([begun, ProjectAdded(layout), ProjectAdded(other), *added])
