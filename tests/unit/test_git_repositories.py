"""Git repositories of all kinds are read; unsuitable ones are refused."""

import io
import random
import shutil

import pytest

from git_histories import (
    FILE,
    MERGED,
    Commit,
    convert,
    digest,
    git,
    git_source,
    listing,
    make_git,
    needs_git,
    refusal,
    write_and_load,
)
from vcsbench.errors import UserError
from vcsbench.sources.git_estimate import estimate_texts

pytestmark = needs_git


@pytest.fixture(scope="module")
def merged(tmp_path_factory):
    """A work tree with a merge, a tag, a second branch and a linked work tree next to it."""
    folder = tmp_path_factory.mktemp("git")
    make_git(folder / "bare", MERGED)
    git(folder, "clone", "-q", "bare", "work")
    git(folder / "work", "worktree", "add", "-q", "../linked", "stable")
    return folder / "work"


@pytest.mark.parametrize("branch", ["HEAD", "refs/heads/stable", "v2", "main~1^2"])
def test_git_source_branch_is_any_revision(merged, tmp_path, branch):
    convert(merged, tmp_path / "svn", branch=branch)


def test_git_source_linked_detached_shared_and_sha256_are_read(merged, tmp_path):
    git(tmp_path, "clone", "-q", "--shared", str(merged), "detached")
    git(tmp_path / "detached", "checkout", "-q", "v2")
    commits = [Commit({b"a/.svn/b": (FILE, b"1")}), Commit({b"a/.svn/b": (FILE, b"2")})]
    sha256 = make_git(tmp_path / "git", commits, "--object-format=sha256")
    for path in (merged.parent / "linked", tmp_path / "detached", sha256):
        convert(path, tmp_path / f"{path.name}.svn")


def test_git_source_odd_paths_tags_and_heads_are_read(work, tmp_path):
    odd = tmp_path / 'a "b"\n#c\\d é'
    shutil.copytree(work, odd)
    git(tmp_path, "clone", "-q", "--shared", str(work), "borrower")
    git(odd, "tag", "-a", "-m", "inner", "inner")
    git(odd, "tag", "-a", "-m", "outer", "outer", "inner")
    git(odd, "pack-refs", "--all")
    expected = git_source(work).identity()
    assert git_source(odd).identity() == git_source(odd, branch="outer").identity() == expected
    assert git_source(tmp_path / "borrower").identity() == expected
    assert git_source(odd.rename(tmp_path / "-x")).identity() == expected


def test_git_source_link_to_the_work_tree_of_a_submodule_is_read(work, tmp_path):
    git_folder = tmp_path / "above/.git/modules/below"
    git_folder.parent.mkdir(parents=True)
    path = tmp_path / "above/below"
    git(tmp_path, "clone", "-q", f"--separate-git-dir={git_folder}", str(work), str(path))
    # As git writes it for a submodule.
    (path / ".git").write_text("gitdir: ../.git/modules/below\n")
    (tmp_path / "links").mkdir()
    (tmp_path / "links/below").symlink_to(path)
    assert git_source(tmp_path / "links/below").identity() == git_source(work).identity()


def test_git_source_gives_the_same_bytes_and_writes_nothing(merged):
    source = git_source(merged)
    before = listing(merged)
    source.check()
    source.describe()
    # The layout, and four commits.
    assert source.estimate().revisions == 5
    assert digest(source) == digest(git_source(merged))
    assert listing(merged) == before


def test_git_identity_changes_with_commit_and_depth_only(merged, tmp_path):
    git(tmp_path, "clone", "-q", str(merged), "whole")
    git(tmp_path, "clone", "-q", "--depth=2", f"file://{merged}", "shallow")
    path = tmp_path / "whole"
    identity = git_source(path).identity()
    assert identity == git_source(merged).identity() != git_source(tmp_path / "shallow").identity()
    (note,) = convert(tmp_path / "shallow", tmp_path / "svn").notes
    assert "shallow" in note
    git(path, "branch", "other", "main~1")
    assert git_source(path).identity() == identity
    git(path, "commit", "-q", "--allow-empty", "-m", "more")
    assert git_source(path).identity() != identity


def test_git_history_changed_since_its_identity_is_not_written(merged, tmp_path):
    git(tmp_path, "clone", "-q", str(merged), "it")
    source = git_source(tmp_path / "it")
    before = source.identity()
    git(tmp_path / "it", "tag", "new")
    source.write(io.BytesIO())
    git(tmp_path / "it", "commit", "-q", "--allow-empty", "-m", "x")
    with pytest.raises(UserError, match="changed since"):
        source.write(io.BytesIO())
    with pytest.raises(UserError, match="changed since"):
        git_source(tmp_path / "it").check_unchanged(before)


EXTENSION = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\t"


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("[core]\n\trepositoryformatversion = 9\n", "found 9"),
        (f"{EXTENSION} refStorage = new\n", "refstorage"),
        (f"{EXTENSION} madeUp = true\n", "madeup"),
        (f"{EXTENSION} objectFormat = md5\n", "md5"),
        ("[core", "bad config line"),
        ('[remote "origin"]\n\tpromisor = true\n', "partial clone"),
        (f"{EXTENSION} partialClone = o\n", "partial clone"),
    ],
)
def test_detect_unknown_git_format_gives_gits_reason(work, setting, reason):
    with (work / ".git/config").open("a") as config:
        config.write(setting)
    assert reason in refusal(work)


def test_git_empty_head_and_moved_repositories_are_named(work, tmp_path):
    head = (work / ".git/HEAD").read_text()
    (work / ".git/HEAD").write_text("")
    assert "git rev-parse failed" in refusal(work)
    (work / ".git/HEAD").write_text(head)
    (work / "below").mkdir()
    assert f" {work}." in refusal(work / "below")
    git(work, "worktree", "add", "-q", "../linked")
    git(tmp_path, "clone", "-q", "--shared", str(work), "borrower")
    git(work, "symbolic-ref", "HEAD", "refs/heads/other")
    assert "git symbolic-ref HEAD" in refusal(work)
    work.rename(tmp_path / "moved")
    assert f"{work}/.git/objects" in refusal(tmp_path / "borrower")
    assert "git worktree repair" in refusal(tmp_path / "linked")


def test_git_source_wrong_definitions_name_the_key(merged, tmp_path):
    git(tmp_path, "init", "-q", "empty")

    def error(path, **options):
        with pytest.raises(UserError) as caught:
            git_source(path, **options).check()
        return str(caught.value).removeprefix("config/config.yaml: `repositories.mine.")

    for path in (tmp_path / "empty", tmp_path / "none", tmp_path, merged / "side"):
        assert error(path).startswith(f"path`: {path} ")
    for name in ("nowhere", "--help", "-q", "HEAD^{tree}", "^main"):
        assert error(merged, branch=name).startswith(f"branch`: {merged} has no commit {name!r}")
    assert error(merged, tree="trunk").startswith("tree`: ")


def test_git_source_partial_clone_is_refused_and_fetches_nothing(merged, tmp_path):
    git(merged, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--bare", "--filter=blob:none", f"file://{merged}", "partial")
    before = listing(tmp_path / "partial")
    for read in (lambda s: s.check(), lambda s: s.estimate(), lambda s: s.write(io.BytesIO())):
        with pytest.raises(UserError, match="partial clone"):
            read(git_source(tmp_path / "partial"))
    assert listing(tmp_path / "partial") == before


def test_git_damaged_packed_refs_give_gits_reason(work):
    git(work, "pack-refs", "--all")
    packed = work / ".git/packed-refs"
    packed.write_bytes(packed.read_bytes().rstrip())
    for options in ({}, {"branch": "main"}):
        assert "./packed-refs" in refusal(work, **options)


def test_git_source_without_git_names_the_package(merged, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(UserError, match="Install the package git"):
        git_source(merged).check()


def test_git_estimate_counts_texts_of_other_paths_in_full(tmp_path):
    """git stores these files as deltas of each other, and Subversion each in full."""
    text = bytearray(random.Random(3).randbytes(100_000))
    commits = []
    for number in range(20):
        text[number] ^= 1
        commits.append(Commit({b"release-%d.jar" % number: (FILE, bytes(text))}))
    # Versions of one path are deltas in Subversion, too.
    commits += [Commit({b"one.jar": (FILE, bytes(text[n:]))}) for n in range(20)]
    path = make_git(tmp_path / "git", commits)
    git(path, "gc", "-q")
    packed = sum(file.stat().st_size for file in path.rglob("*.pack"))
    estimate = git_source(path).estimate().repository_bytes
    assert packed < 300_000
    assert 2_000_000 < estimate < 2_300_000
    write_and_load(git_source(path), tmp_path / "svn")
    revisions = sum(f.stat().st_size for f in (tmp_path / "svn/db/revs").rglob("*") if f.is_file())
    assert 0.9 < estimate / revisions < 1.2


def test_estimate_texts_takes_compression_of_suffix_and_deltas_of_paths():
    none, base = b"0" * 40, b"1" * 40
    lines = [
        b"blob 1000 100 %s a.txt" % none,  # in full, ten to one
        b"blob 2000 20 %s b.txt" % base,  # the largest of its path
        b"blob 1500 30 %s b.txt" % base,
        b"blob 500 10 %s c.jar" % base,  # no text of this suffix is stored in full
        b"tree 9000 900 %s folder" % none,
        b"commit 900 90 %s" % none,
    ]
    expected = 1000 * 0.14 + 2000 * 0.14 + 30 * 1.5 + 500
    assert estimate_texts(lines, None) == pytest.approx(expected, abs=1)
