"""The subjects of git's commands, and the work of clones."""

import os
from types import SimpleNamespace

import pytest

from git_histories import (
    EXECUTABLE,
    FILE,
    SUBMODULE,
    SYMLINK,
    Commit,
    Graph,
    git,
    make_git,
    run,
    write_blob,
)
from vcsbench.environment import program_environment
from vcsbench.errors import UserError
from vcsbench.measure.work import WORK_KINDS, UrlNormaliser
from vcsbench.subjects import git_subjects
from vcsbench.subjects.checkouts import FossilCheckout, HgCheckout
from vcsbench.subjects.git_subjects import (
    GitCheckout,
    GitClone,
    GitPushTarget,
    GitRef,
    GitRepository,
    add_commits,
    copy_refs,
    make_older_clone,
    refs_of,
)

CLONE, PARTIAL = WORK_KINDS["git_clone"], WORK_KINDS["git_partial_clone"]
URLS = UrlNormaliser()


@pytest.fixture
def repository(tmp_path):
    """A bare repository: ten commits on main, a branch and tags at some of them."""
    commits = [
        Commit({b"a": ("100644", b"%d\n" % n), b"f/%d" % n: ("100644", b"x\n")}, seconds=1000 + n)
        for n in range(10)
    ]
    graph = Graph(commits, {"main": 9, "old": 2, "new": 8}, {"light": 9}, {"first": 1, "last": 9})
    make_git(tmp_path / "work", graph)
    git(tmp_path / "work", "clone", "-q", "--mirror", ".", str(tmp_path / "bare"))
    return tmp_path / "bare"


def commits(path, ref):
    return int(git(path, "rev-list", "--count", ref))


def names(path):
    return {ref.name for ref in refs_of(path)}


@pytest.mark.parametrize("kind", [GitClone, GitCheckout, GitPushTarget, HgCheckout, FossilCheckout])
def test_client_folder_has_no_words_for_an_idle_run(tmp_path, kind):
    # Such a run would load the folder itself after the caches were cleared.
    recipe = {"targets": str(tmp_path), "storage": {"path": str(tmp_path)}}
    assert kind(recipe, 1, tmp_path, tmp_path).idle_words() == {}


def test_copy_refs_has_the_same_objects_in_one_pack_of_its_own(repository, tmp_path):
    copy = tmp_path / "copy"
    copy_refs(repository, copy, refs_of(repository))
    assert refs_of(copy) == refs_of(repository)
    assert git(copy, "symbolic-ref", "HEAD") == git(repository, "symbolic-ref", "HEAD")
    assert len(list((copy / "objects/pack").glob("*.pack"))) == 1
    assert not list((copy / "objects/pack").glob("*.bitmap"))
    assert CLONE.inspect(copy, URLS) == CLONE.inspect(repository, URLS)
    repository.rename(tmp_path / "elsewhere")
    git(copy, "fsck", "--full")


def test_copy_refs_of_a_sha256_repository_has_its_object_format(tmp_path):
    history = [Commit({b"a": ("100644", b"1\n")})]
    path = make_git(tmp_path / "git", history, "--object-format=sha256")
    copy = tmp_path / "copy"
    copy_refs(path, copy, refs_of(path))
    assert git(copy, "rev-parse", "--show-object-format") == b"sha256\n"
    assert refs_of(copy) == refs_of(path)
    git(copy, "fsck", "--full")


def test_find_branch_is_head_s_or_the_first(repository):
    assert git_subjects.find_branch(repository) == "main"
    git(repository, "symbolic-ref", "HEAD", "refs/heads/gone")
    assert git_subjects.find_branch(repository) == "main"
    git(repository, "update-ref", "--no-deref", "HEAD", "refs/heads/old")
    git(repository, "update-ref", "-d", "refs/heads/main")
    assert git_subjects.find_branch(repository) == "new"
    for branch in ("new", "old"):
        git(repository, "update-ref", "-d", f"refs/heads/{branch}")
    with pytest.raises(UserError, match="has no branch"):
        git_subjects.find_branch(repository)


# A blank, two line ends of Unicode, and a name in Latin-1.
@pytest.mark.parametrize("name", [b"a\xe3\x80\x80b", b"a\xe2\x80\xa8b", b"a\xc2\x85b", b"\xe9"])
def test_branch_with_an_odd_name_is_copied_and_found(repository, tmp_path, name):
    branch = os.fsdecode(name)
    git(repository, "update-ref", f"refs/heads/{branch}", "refs/heads/old")
    git(repository, "symbolic-ref", "HEAD", f"refs/heads/{branch}")
    assert git_subjects.find_branch(repository) == branch
    copy = tmp_path / "copy"
    copy_refs(repository, copy, refs_of(repository))
    assert f"refs/heads/{branch}" in names(copy) == names(repository)
    assert (copy / "HEAD").read_bytes() == b"ref: refs/heads/%s\n" % name


def test_older_clone_lacks_the_last_commits(repository, tmp_path):
    (tmp_path / "tmp").mkdir()
    clone = tmp_path / "clone"
    make_older_clone(repository, clone, tmp_path / "tmp", 3)
    head = os.fsdecode(git(repository, "symbolic-ref", "HEAD")).strip()
    assert commits(repository, head) == 10
    assert commits(clone, head) == 7
    # The branch at commit 8 goes back to 6, as HEAD's. An annotated tag cannot go back.
    assert commits(clone, "refs/heads/new") == 7
    assert commits(clone, "refs/heads/old") == commits(repository, "refs/heads/old") == 3
    assert names(repository) - names(clone) == {"refs/tags/last"}
    git(clone, "fetch", "-q", str(repository), "+refs/*:refs/*")
    assert CLONE.inspect(clone, URLS) == CLONE.inspect(repository, URLS)


def test_older_clone_leaves_out_refs_without_an_older_commit(repository):
    new, parents = {"b", "c"}, {"a": [], "b": [], "c": ["b"], "d": ["a"]}
    refs = [GitRef("x", "c"), GitRef("y", "d"), GitRef("t", "tag", "c"), GitRef("u", "tag", "a")]
    # The second object may be another tag, or a file.
    refs.append(GitRef("v", "tag", "tag2"))
    moved = list(git_subjects._move_back(refs, new, parents))
    assert moved == [GitRef("y", "d"), GitRef("u", "tag", "a")]
    assert list(git_subjects._move_back(refs, set(), parents)) == refs


def test_older_clone_has_no_new_commit_of_a_tag_of_a_tag(repository, tmp_path):
    git(repository, "tag", "-a", "-m", "Outer", "outer", "last")
    (tmp_path / "tmp").mkdir()
    make_older_clone(repository, tmp_path / "clone", tmp_path / "tmp", 3)
    assert commits(tmp_path / "clone", "--all") == 7
    assert "refs/tags/outer" not in names(tmp_path / "clone")


def test_changes_are_of_plain_files(tmp_path):
    history = [
        Commit(
            {
                b"link": (SYMLINK, b"%d" % number),
                b"below": (SUBMODULE, b"%040d" % (number + 1)),
                b"run": (EXECUTABLE, b"%d\n" % (number // 2)),
            }
        )
        for number in range(4)
    ]
    path = make_git(tmp_path / "git", [*history, Commit({b"plain": (FILE, b"x\n")})])
    changes = GitRepository.changes.func(SimpleNamespace(path=path, branch="main"))
    assert dict(changes) == {"run": 2, "plain": 1}


@pytest.mark.parametrize("name", ["[a]", "a*", ":b", "a"])
def test_path_in_a_command_of_git_is_a_name_and_no_pattern(tmp_path, name):
    history = [Commit({file: (FILE, b"x\n")}) for file in (b"a", b"[a]", b"a*", b"ab", b":b")]
    path = make_git(tmp_path / "git", history)
    argv = ("git", f"--git-dir={path}", "log", "--format=%H", "main", "--", name)
    assert run(*argv, env=program_environment()).count(b"\n") == 1


def test_add_commits_adds_the_same_commits_each_time(repository, tmp_path):
    tips = set()
    for name in ("one", "two"):
        copy = tmp_path / name
        copy_refs(repository, copy, refs_of(repository))
        ref = "refs/heads/new"
        add_commits(copy, ref, 5)
        assert commits(copy, ref) == commits(repository, ref) + 5
        changed = git(copy, "log", "-5", "--format=", "--name-only", ref).split()
        assert len(changed) >= 5 and len(set(changed)) > 2
        tips.add(git(copy, "rev-parse", ref))
        git(copy, "fsck", "--full")
        git(copy, "push", "-q", str(repository), f"{ref}:refs/heads/{name}")
    assert len(tips) == 1


def test_add_commits_without_a_file_raises(repository, tmp_path):
    make_git(tmp_path / "empty", [Commit({})])
    with pytest.raises(UserError, match="Leave out push"):
        add_commits(tmp_path / "empty", "HEAD", 1)


def test_inspect_git_clone_compares_objects_refs_and_files(repository, tmp_path):
    work = CLONE.inspect(repository, URLS)
    objects = len(git(repository, "cat-file", "--batch-all-objects", "--batch-check").splitlines())
    assert (work["objects"], work["refs"]) == (objects, len(refs_of(repository)))
    # Other packs with the same objects are the same work.
    git(repository, "repack", "-q", "-a", "-d", "-f")
    assert CLONE.inspect(repository, URLS) == work
    git(repository, "update-ref", "-d", "refs/tags/light")
    other = CLONE.inspect(repository, URLS)
    assert other["digest"] != work["digest"] and other["objects"] == work["objects"]
    tree = tmp_path / "tree"
    git(tmp_path, "clone", "-q", str(repository), str(tree))
    with_files = CLONE.inspect(tree, URLS)
    assert with_files["files"] == 11
    (tree / "a").write_text("changed\n")
    assert CLONE.inspect(tree, URLS)["digest"] != with_files["digest"]
    git(tmp_path, "init", "-q", "--bare", "nothing")
    assert CLONE.inspect(tmp_path / "nothing", URLS) == {}


def test_inspect_git_clone_of_another_head_is_other_work(repository):
    works = []
    before = CLONE.inspect(repository, URLS)
    # Branches, and at last a commit without a branch.
    commit = git(repository, "rev-parse", "HEAD").decode().strip()
    for arguments in (
        ["symbolic-ref", "HEAD", "refs/heads/elsewhere"],
        ["symbolic-ref", "HEAD", "refs/heads/nowhere"],
        ["update-ref", "--no-deref", "HEAD", commit],
    ):
        git(repository, *arguments)
        works.append(CLONE.inspect(repository, URLS))
    assert len({work["digest"] for work in [before, *works]}) == 4
    for work in works:
        assert {**work, "digest": ""} == {**before, "digest": ""}


def test_inspect_partial_clone_that_has_all_objects_raises(repository, tmp_path):
    url = f"file://{repository}"
    tree = tmp_path / "tree"
    # Without the server's permission, git warns, and clones everything.
    git(tmp_path, "clone", "-q", "--filter=blob:none", url, str(tree))
    with pytest.raises(UserError, match="ignored the filter"):
        PARTIAL.inspect(tree, URLS)
    git(repository, "config", "uploadpack.allowFilter", "true")
    partial = tmp_path / "partial"
    git(tmp_path, "clone", "-q", "--filter=blob:none", url, str(partial))
    assert PARTIAL.inspect(partial, URLS)["objects"] < CLONE.inspect(tree, URLS)["objects"]


def test_inspect_partial_clone_may_have_the_blobs_that_refs_name(repository, tmp_path):
    key = write_blob(repository, b"A public key.\n")
    git(repository, "update-ref", "refs/tags/key", key)
    git(repository, "tag", "-a", "-m", "Key", "signed-key", key)
    git(repository, "config", "uploadpack.allowFilter", "true")
    partial = tmp_path / "partial"
    git(tmp_path, "clone", "-q", "--filter=blob:none", f"file://{repository}", str(partial))
    listed = git(partial, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").decode()
    assert key in listed.split()
    assert PARTIAL.inspect(partial, URLS)["objects"] == len(listed.split())
