"""Git repositories of all kinds are read safely; damaged and unsuitable ones are refused."""

import io
import os
import re
import shutil
import subprocess
import zlib
from contextlib import contextmanager
from pathlib import Path

import pytest

from fuzz import limits
from git_histories import (
    FILE,
    MERGED,
    SYMLINK,
    TEXT,
    Commit,
    Graph,
    convert,
    digest,
    exported,
    git,
    git_source,
    listing,
    make_git,
    needs_git,
    run,
    tree_on_disk,
    write_and_load,
)
from project import ODD_FILES, open_folder, write_program
from vcsbench import sources
from vcsbench.errors import UserError
from vcsbench.sources import git_repository
from vcsbench.sources.dump_format import WHOLE_BYTES
from vcsbench.subjects.tree import checkout_head

pytestmark = needs_git

CONTENT = {
    ".gitattributes": b"* filter=canary diff=canary text eol=crlf ident\n",
    "plain.txt": b"one\ntwo $Id$\n",
    "run.bin": bytes(range(256)),
}
HOOKS = (
    "post-checkout", "post-merge", "post-rewrite", "post-index-change", "pre-auto-gc", "pre-commit",
    "pre-receive", "update", "proc-receive", "reference-transaction", "fsmonitor-watchman",
)  # fmt: skip
# Keys of the format of a repository. They name no program, and git refuses wrong values.
FORMAT_KEYS = re.compile(
    r"^(extensions|core\.(repositoryformatversion|bare)|index|pack|gc|feature)\b", re.I
)
PROGRAM_KEYS = ("core.fsmonitor", "filter.canary.smudge", "filter.canary.process")
PROGRAM_VARIABLES = (
    "GIT_EXTERNAL_DIFF", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_PAGER", "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR", "GIT_PROXY_COMMAND", "PAGER", "EDITOR", "SSH_ASKPASS",
)  # fmt: skip


def make_work(path):
    """Make a work tree with one commit whose attributes name a filter for every file."""
    path.mkdir()
    git(path, "init", "-q", "-b", "main")
    for name, content in CONTENT.items():
        (path / name).write_bytes(content)
        # With these two commands, the attributes change no content.
        blob = git(path, "hash-object", "-w", "--no-filters", name).decode().strip()
        git(path, "update-index", "--add", "--cacheinfo", f"100644,{blob},{name}")
    git(path, "commit", "-q", "-m", "one")
    return path


@pytest.fixture
def work(tmp_path):
    return make_work(tmp_path / "work")


def canary(folder):
    """Return a program that leaves the file CANARY next to it."""
    return write_program(
        folder / "canary", f"#!/bin/sh\necho \"$0 $*\" >> '{folder}/CANARY'\ncat\n"
    )


def program_keys():
    """Return every configuration key of the installed git, with names in place of the placeholders."""
    words = ("git", "help", "--config-for-completion")
    keys = subprocess.run(words, capture_output=True, text=True).stdout.split()
    known = run("git", "help", "--config").decode().split()
    keys += [word for word in known if "." in word and "'" not in word]
    keys = [re.sub(r"<[^>]*>|\*", "canary", key) for key in keys]
    keys += ["diff.canary.textconv", "diff.canary.command", *PROGRAM_KEYS]
    pattern = re.compile(r"[A-Za-z0-9-]+(\.[\w.-]+)*\.[A-Za-z][A-Za-z0-9-]*")
    return sorted({key for key in keys if pattern.fullmatch(key)})


def check_out(source, folder):
    """Write the youngest tree of a source to folder/tree, and return the notes."""
    folder.mkdir()
    return checkout_head(source.head(), folder / "tree", folder, "svn")


def read_everything(path, folder):
    """Detect, estimate, convert and take the tree of a repository, as plan and run do."""
    definition = sources.detect(str(path))
    source = sources.open_source("mine", {**definition, "history": "whole"})
    source.check()
    source.identity()
    source.describe()
    source.estimate()
    source.write(io.BytesIO())
    check_out(source, folder)
    return folder / "tree"


def check_read(path, folder):
    """Read the repository of `work` in all ways. Its content is unchanged, and no canary has run."""
    tree = read_everything(path, folder / "out")
    assert {file.name: file.read_bytes() for file in tree.iterdir()} == CONTENT
    assert not (folder / "CANARY").exists()


def refusal(path, **options):
    """Return the error of a plan. It must be one line."""

    def plan():
        source = sources.open_source("mine", {**sources.detect(str(path)), **options})
        source.check()
        source.estimate()
        source.check_history()

    with pytest.raises(UserError, match=r"^[^\n]*$") as caught:
        plan()
    return str(caught.value)


def resolve(path, name):
    return git(path, "rev-parse", name).decode().strip()


def write_blob(path, content):
    return git(path, "hash-object", "-w", "--stdin", stdin=content).decode().strip()


def test_git_source_with_canaries_in_every_key_and_hook_runs_none(work, tmp_path):
    program = canary(tmp_path)
    keys = program_keys()
    assert {*PROGRAM_KEYS, "core.sshCommand", "diff.external"} <= {*keys}
    os.mkfifo(tmp_path / "pipe")
    config = [(work / ".git/config").read_text(), "[core]\n\tautocrlf = true\n"]
    config += [
        f"[{key}]\n\tpath = {tmp_path}/pipe\n" for key in ("include", 'includeIf "gitdir:/"')
    ]
    for key in keys:
        section, _, name = key.rpartition(".")
        first, _, rest = section.partition(".")
        if not FORMAT_KEYS.match(key) and not name.lower().endswith("promisor"):
            head = f'[{first} "{rest}"]' if rest else f"[{first}]"
            config.append(f"{head}\n\t{name} = {program}\n")
    (work / ".git/config").write_text("".join(config))
    for hook in HOOKS:
        shutil.copy(program, work / ".git/hooks" / hook)
    check_read(work, tmp_path)


def test_git_source_with_hostile_environment_reads_the_same(work, tmp_path, monkeypatch):
    expected = digest(git_source(work, history="whole"))
    program = str(canary(tmp_path))
    make_git(tmp_path / "other", [Commit({b"other": (FILE, b"other")})])
    (tmp_path / ".config/git").mkdir(parents=True)
    (tmp_path / ".config/git/attributes").write_text("* binary filter=canary\n")
    (tmp_path / ".gitconfig").write_text(
        f"[core]\n\tfsmonitor = {program}\n[alias]\n\tlog = !{program}\n"
    )
    for name in PROGRAM_VARIABLES:
        monkeypatch.setenv(name, program)
    others = {
        "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / ".config"),
        "GIT_DIR": str(tmp_path / "other"), "GIT_OBJECT_DIRECTORY": str(tmp_path / "other/objects"),
        "GIT_WORK_TREE": str(tmp_path),
        "GIT_INDEX_FILE": program, "GIT_NAMESPACE": "other", "GIT_EXEC_PATH": str(tmp_path),
        "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": program,
        "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor'='{program}'", "GIT_CONFIG": program, "GIT_TRACE": "1",
        "GIT_TEMPLATE_DIR": str(tmp_path), "GIT_SHALLOW_FILE": program, "GIT_LITERAL_PATHSPECS": "1",
        "GIT_REPLACE_REF_BASE": "refs/heads/", "GIT_ATTR_SOURCE": "HEAD", "GIT_DEFAULT_HASH": "sha256",
        "GIT_CONFIG_GLOBAL": str(tmp_path / ".gitconfig"), "GIT_CONFIG_SYSTEM": str(tmp_path / ".gitconfig"),
    }  # fmt: skip
    for name, value in others.items():
        monkeypatch.setenv(name, value)
    assert digest(git_source(work, history="whole")) == expected
    check_read(work, tmp_path)


def test_git_source_with_replacements_and_grafts_reads_the_commit(work, tmp_path):
    git(work, "commit", "-q", "--allow-empty", "-m", "two")
    expected = digest(git_source(work))
    git(work, "replace", resolve(work, "HEAD:plain.txt"), write_blob(work, b"a lie"))
    (work / ".git/info/grafts").write_text(resolve(work, "HEAD"))
    (work / ".git/info/attributes").write_text("* filter=canary export-ignore\n")
    assert digest(git_source(work)) == expected
    check_read(work, tmp_path)


def make_sparse(path):
    with path.open("wb") as file:
        file.truncate(100 << 20)


ODD = {
    **ODD_FILES,
    "file": Path.touch,
    "large": make_sparse,
    "NULs": lambda path: path.write_bytes(bytes(60)),
    "unreadable": Path.touch,
}
# Entries of a git folder: those that are read, and the rest.
READ = (
    "", "HEAD", "config", "packed-refs", "refs", "refs/heads", "refs/heads/main", "objects", "objects/pack",
    "objects/pack/*.pack", "objects/pack/*.idx", "objects/??/*", "objects/??",
    "objects/info/alternates", "shallow", "commondir", "worktrees/linked", "worktrees/linked/HEAD",
    "worktrees/linked/commondir", "../../linked/.git",
    "objects/info", "objects/pack/x.pack", "objects/pack/x.idx", "objects/17/x", "refs/replace",
)  # fmt: skip
UNUSED = (
    "info", "info/grafts", "info/attributes", "hooks", "hooks/post-checkout", "index", "config.worktree",
    "worktrees/linked/gitdir",
)  # fmt: skip
# Without loose refs, git reads an older state.
OLDER = {(name, "folder") for name in ("refs", "refs/heads", "refs/heads/main")}


@contextmanager
def replaced(path, kind):
    """Put something odd in the place of a file or folder. Unreadable ones keep their content."""
    away = path.with_name("away")
    if os.path.lexists(path) and kind == "unreadable":
        shutil.copytree(path, away) if path.is_dir() else shutil.copy(path, away)
    elif os.path.lexists(path):
        path.rename(away)
    path.parent.mkdir(exist_ok=True)
    if not os.path.lexists(path):
        ODD[kind](path)
    if kind == "unreadable":
        path.chmod(0)
        os.seteuid(65534 if os.geteuid() == 0 else os.geteuid())
    try:
        yield
    finally:
        os.seteuid(os.getuid())
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        if os.path.lexists(away):
            away.rename(path)


@pytest.fixture(scope="module")
def shared():
    """A folder of nobody's with a repository that has packed and loose objects, and a linked work tree."""
    with open_folder("/tmp") as folder:
        work = make_work(folder / "work")
        git(work, "gc", "-q")
        git(work, "commit", "-q", "--allow-empty", "-m", "two")
        git(work, "worktree", "add", "-q", "../linked")
        git(work, "config", "filter.canary.smudge", str(canary(folder)))
        for path in [folder, *folder.rglob("*")] if os.geteuid() == 0 else []:
            os.chown(path, 65534, 65534)
        yield folder


@pytest.mark.parametrize("name", [*READ, *UNUSED])
def test_git_folder_with_an_odd_entry_is_read_or_refused(shared, name):
    place = shared / ("linked" if "linked" in name else "work")

    def identity():
        source = git_source(Path(sources.detect(str(place))["path"]))
        source.estimate()
        return source.identity()

    expected = identity()
    path = next((shared / "work").glob(f".git/{name}"), shared / "work/.git" / name)
    for kind in ODD:
        with replaced(path, kind), limits(60):
            try:
                result = identity()
            except UserError as error:
                result = f"refused: {error}"
        assert result.isprintable()
        is_refused = name in READ and result.startswith("refused: ")
        assert is_refused or result == expected or (name, kind) in OLDER, kind
    assert identity() == expected
    assert not (shared / "CANARY").exists()


LENDERS = "work/.git/objects/info/alternates"
IMPOSSIBLE = (b"9" * 5000, b"a\0b", b"/etc/passwd", b"\xff")


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        *((LENDERS, lender + b"\n", "object folder") for lender in (b"x/" * 3000, *IMPOSSIBLE)),
        *((".git", b"gitdir: " + folder, "which does not exist") for folder in IMPOSSIBLE),
    ],
)
def test_git_impossible_path_in_a_file_is_refused(work, file, content, reason):
    path = work.parent / file
    path.write_bytes(content)
    with pytest.raises(UserError, match=reason):
        sources.detect(str(work.parent / file.partition("/.git")[0].removesuffix(".git")))


def test_git_extension_with_a_subsection_is_refused(work, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with (work / ".git/config").open("a") as config:
        config.write(f'[extensions "[include] path = {tmp_path}/pipe #"]\n\ty = z\n')
    assert "has no extension" in refusal(work)


def raw_tree(path, *entries):
    """Write a tree of any modes, names and objects, even if git itself refuses them."""
    data = b"".join(
        b"%s %s\0%s" % (mode, name, bytes.fromhex(blob)) for mode, name, blob in entries
    )
    words = ("hash-object", "-t", "tree", "--literally", "-w", "--stdin")
    return git(path, *words, stdin=data).decode().strip()


def commit_tree(path, tree):
    name = git(path, "commit-tree", "-m", "a tree", tree).decode().strip()
    git(path, "update-ref", "refs/heads/main", name)


def test_git_tree_with_entries_that_leave_the_folder_writes_inside(work, tmp_path):
    blob = resolve(work, "HEAD:plain.txt")
    inner = raw_tree(work, (b"100644", b"evil", blob))
    commit_tree(work, raw_tree(work, (b"40000", b"..", inner), (b"100664", b".git", blob)))
    tree = read_everything(work, tmp_path / "out")
    assert sorted(p.relative_to(tree).as_posix() for p in tree.rglob("*")) == [
        "?\\046?\\046", "?\\046?\\046/evil", "?\\046git",
    ]  # fmt: skip
    assert (tree / "?\\046git").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("mode", "name", "mode_of_object"),
    [
        (b"100644", b"a", b"100644"),
        (b"40000", b"a", b"40000"),
        *((b"100644", name, b"100644") for name in (b"/etc/evil", b"b/c")),
        *((mode, b"b", b"40000") for mode in (b"100644", b"120000")),
    ],
)
def test_git_tree_with_a_damaged_entry_is_refused(work, tmp_path, mode, name, mode_of_object):
    target = write_blob(work, str(tmp_path).encode())
    inner = raw_tree(work, (b"100644", b"evil", target))
    other = inner if mode_of_object == b"40000" else target
    commit_tree(work, raw_tree(work, (b"120000", b"a", target), (mode, name, other)))
    source = git_source(work)
    if mode == mode_of_object:
        assert "damaged" in refusal(work)
    with pytest.raises(UserError, match="damaged"):
        source.write(io.BytesIO())
    with pytest.raises(UserError, match="damaged"):
        check_out(source, tmp_path / "out")
    assert not (tmp_path / "evil").exists()


def test_git_tree_that_holds_itself_many_times_ends_at_a_limit(work, monkeypatch):
    monkeypatch.setattr(git_repository, "MEMORY_BYTES", 1 << 26)
    small = tree = raw_tree(work, (b"100644", b"f", write_blob(work, b"x")))
    for _ in range(10):
        tree = raw_tree(work, *((b"40000", b"d%d" % n, tree) for n in range(10)))
    commit_tree(work, tree)
    youngest = git(work, "commit-tree", "-p", "main", "-m", "small", small).decode().strip()
    git(work, "update-ref", "refs/heads/main", youngest)
    source = git_source(work)
    source.estimate()
    with pytest.raises(UserError, match="git log failed"):
        source.write(io.BytesIO())


def test_git_tree_larger_than_the_free_space_is_refused(work, tmp_path):
    (work / "zeros").write_bytes(bytes(1 << 26))
    blob = git(work, "hash-object", "-w", "zeros").decode().strip()
    inner = raw_tree(work, *((b"100644", b"%04d" % n, blob) for n in range(200)))
    commit_tree(work, raw_tree(work, *((b"40000", b"%04d" % n, inner) for n in range(100))))
    with pytest.raises(UserError, match="tree has 1"):
        check_out(git_source(work), tmp_path / "out")


DEEP = pytest.param(b"d", 300, "deeper than 256", marks=pytest.mark.slow)
# Escapes make it longer.
LONG = (b"\x01" * 230, 15, "a path is longer than 3500")


@pytest.mark.parametrize(("name", "depth", "reason"), [DEEP, LONG])
def test_git_tree_that_is_too_deep_is_refused(work, tmp_path, name, depth, reason):
    tree = resolve(work, "HEAD^{tree}")
    for _ in range(depth):
        tree = raw_tree(work, (b"40000", name, tree))
    commit_tree(work, tree)
    source = git_source(work)
    for read in (
        source.estimate,
        lambda: source.write(io.BytesIO()),
        lambda: check_out(source, tmp_path / "out"),
    ):
        with pytest.raises(UserError, match=reason):
            read()


def test_git_tree_and_loaded_history_have_equal_names(tmp_path):
    nodes = {
        b"a/.svn/format": (FILE, b"12"), b"CVS/Root": (FILE, b"x"), b"b/.GIT": (FILE, b"y"),
        b"x" * 300: (FILE, b"z"), b"link": (SYMLINK, b"../a"), b"empty": (SYMLINK, b""),
        b"esc\x1b[31m/bell\x07": (FILE, b"c"), b"latin-\xe9": (FILE, b"l"), b"line\n": (FILE, b"n"),
        b"odd-link": (SYMLINK, b"to\x1b\xe9"), b"?\\027[31m": (FILE, b"not an escape"),
        b"empty-too": (SYMLINK, b""), b"large": (SYMLINK, b"x" * (WHOLE_BYTES + 1)),
        b"n" * 252: (SYMLINK, b"a"), b"m" * 251: (SYMLINK, b"a"),
    }  # fmt: skip
    source = git_source(make_git(tmp_path / "git", [Commit(nodes)]))
    facts = write_and_load(source, tmp_path / "svn")
    notes = check_out(source, tmp_path / "out")
    tree = tree_on_disk(tmp_path / "out/tree")
    assert tree == exported(tmp_path / "svn", 2)
    names = {b"esc?\\027[31m/bell?\\007", b"latin-?\\233", b"line?\\010", b"a/?\\046svn/format"}
    assert names | {b"?\\063\\027[31m"} <= tree.keys()
    assert tree[b"odd-link"] == ("file", b"to\x1b\xe9") and tree[b"empty"] == ("file", b"")
    assert sorted(facts.notes) == sorted(notes) and len(notes) == 2


# All kinds of repositories


@pytest.fixture(scope="module")
def merged(tmp_path_factory):
    """A work tree with a merge, a tag, a second branch and a linked work tree next to it."""
    folder = tmp_path_factory.mktemp("git")
    make_git(folder / "bare", MERGED)
    git(folder, "clone", "-q", "bare", "work")
    git(folder / "work", "worktree", "add", "-q", "../linked", "stable")
    return folder / "work"


@pytest.mark.parametrize(
    "branch", ["HEAD", "stable", "refs/heads/stable", "v2", "main~1", "main~1^2"]
)
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
    (odd / ".git/HEAD").unlink()
    (odd / ".git/HEAD").symlink_to("refs/heads/main")
    assert git_source(odd.rename(tmp_path / "-x")).identity() == expected


def test_git_source_gives_the_same_bytes_and_writes_nothing(merged):
    source = git_source(merged)
    before = listing(merged)
    source.check()
    source.describe()
    estimate = source.estimate()
    tree_bytes = len(TEXT + b"more\nb2")
    assert (estimate.revisions, estimate.files, estimate.tree_bytes) == (5, 4, tree_bytes)
    assert digest(source) == digest(git_source(merged))
    assert listing(merged) == before


def test_git_identity_changes_with_commit_depth_and_refs(merged, tmp_path):
    git(tmp_path, "clone", "-q", str(merged), "whole")
    git(tmp_path, "clone", "-q", "--depth=2", f"file://{merged}", "shallow")
    path = tmp_path / "whole"
    identity = git_source(path).identity()
    assert identity == git_source(merged).identity() != git_source(tmp_path / "shallow").identity()
    (note,) = convert(tmp_path / "shallow", tmp_path / "svn").notes
    assert "shallow" in note
    identities = {identity, git_source(path, history="whole").identity()}
    git(path, "branch", "other", "main~1")
    identities.add(git_source(path, history="whole").identity())
    git(path, "commit", "-q", "--allow-empty", "-m", "more")
    assert len({*identities, git_source(path).identity()}) == 4


@pytest.mark.parametrize("history", ["first-parent", "whole"])
@pytest.mark.parametrize("change", [["commit", "-q", "--allow-empty", "-m", "x"], ["tag", "new"]])
def test_git_history_that_changed_since_its_identity_is_not_written(
    merged, tmp_path, history, change
):
    git(tmp_path, "clone", "-q", str(merged), "it")
    source = git_source(tmp_path / "it", history=history)
    before = source.identity()
    git(tmp_path / "it", *change)
    if (history, change[0]) == ("first-parent", "tag"):
        source.write(io.BytesIO())
        return
    with pytest.raises(UserError, match="changed since this run began"):
        source.write(io.BytesIO())
    with pytest.raises(UserError, match="changed since this run began"):
        git_source(tmp_path / "it", history=history).check_unchanged(before)


# Refusals

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
    assert "HEAD: names neither" in refusal(work)
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
    for branch in ("nowhere", "--help", "-q", "HEAD^{tree}", "^main"):
        assert error(merged, branch=branch).startswith(
            f"branch`: {merged} has no commit {branch!r}. "
        )
    assert error(merged, tree="trunk").startswith("tree`: ")


def make_loose(path, history):
    """Create a repository with a file for each object."""
    make_git(path, history)
    if pack := next(path.glob("objects/pack/*.pack"), None):
        moved = pack.rename(path.with_name("pack"))
        shutil.rmtree(path / "objects/pack")
        git(path, "unpack-objects", "-q", stdin=moved.read_bytes())
    return path


def object_file(path, name):
    identity = resolve(path, name)
    return path / "objects" / identity[:2] / identity[2:]


@pytest.mark.parametrize("name", ["main", "main~1^{tree}", "main:big", "main~1:a/b"])
@pytest.mark.parametrize("damage", ["missing", "short", "changed", "sizes"])
def test_git_source_damaged_object_is_refused(tmp_path, name, damage):
    big = bytes(number * number % 251 for number in range(300_000))
    commits = [Commit({b"a/b": (FILE, b"1"), b"big": (FILE, big)}), Commit({b"a/b": (FILE, b"2")})]
    path = make_loose(tmp_path / "git", commits)
    victim = object_file(path, name)
    content = victim.read_bytes()
    half = len(content) // 2
    kind, _, text = zlib.decompress(content).partition(b"\0")
    sizes = [len(text) + more for more in (-1, 1, 44, 9**12)]  # 44: up to the end of all answers
    contents = {
        "missing": [None],
        "short": [content[:half]],
        "changed": [content[:half] + bytes([content[half] ^ 8]) + content[half + 1 :]],
        "sizes": [zlib.compress(b"%s %d\0%s" % (kind.split()[0], n, text)) for n in sizes],
    }
    for damaged in contents[damage]:
        victim.unlink()
        if damaged is not None:
            victim.write_bytes(damaged)
        with limits(60), pytest.raises(UserError):
            git_source(path).write(io.BytesIO())


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *(("main", b""), ("main~1^{tree}", b"damaged"), ("main~1:old", b"")),
        *(("main:f", b""), ("side:new", b""), ("side", b"")),
    ],
)
def test_plan_git_missing_or_damaged_object_is_named(tmp_path, name, content):
    nodes = [{b"f": (FILE, b"f"), b"old": (FILE, b"old")}, {b"old": None}, {b"new": (FILE, b"new")}]
    commits = [Commit(of, parents=(0,) if n else ()) for n, of in enumerate(nodes)]
    path = make_loose(tmp_path / "git", Graph(commits, {"main": 1, "side": 2}))
    whole = git_source(path, history="whole")
    whole.check_history()
    victim = object_file(path, name)
    victim.unlink()
    if content:
        victim.write_bytes(content)
    assert victim.parent.name + victim.name in refusal(path, history="whole")
    if name.startswith("side"):
        git_source(path).check_history()


def test_git_source_partial_clone_is_refused_and_fetches_nothing(merged, tmp_path):
    git(merged, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--bare", "--filter=blob:none", f"file://{merged}", "partial")
    before = listing(tmp_path / "partial")
    for read in (lambda s: s.check(), lambda s: s.estimate(), lambda s: s.write(io.BytesIO())):
        with pytest.raises(UserError, match="partial clone"):
            read(git_source(tmp_path / "partial"))
    assert listing(tmp_path / "partial") == before


@pytest.mark.parametrize("options", [{}, {"history": "whole"}, {"branch": "main"}])
def test_git_damaged_packed_refs_give_gits_reason(work, options):
    git(work, "pack-refs", "--all")
    packed = work / ".git/packed-refs"
    packed.write_bytes(packed.read_bytes().rstrip())
    assert "./packed-refs" in refusal(work, **options)


def test_git_source_without_git_names_the_package(merged, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(
        UserError, match=r"only the program git can read .* Install the package git"
    ):
        git_source(merged).check()
