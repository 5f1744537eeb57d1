"""Nothing of a user's git repository, and nothing of his environment, takes part when it is read."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from git_histories import FILE, SYMLINK, Commit, digest, git, git_source, make_git
from vcsbench import sources
from vcsbench.errors import UserError
from vcsbench.subjects.tree import heads

pytestmark = pytest.mark.skipif(
    not (shutil.which("svnadmin") and shutil.which("git")), reason="not installed: svnadmin or git"
)
CONTENT = {
    ".gitattributes": b"* filter=canary diff=canary text eol=crlf ident\n",
    "plain.txt": b"one\ntwo $Id$\n",
    "run.bin": bytes(range(256)),
}
HOOKS = (
    "applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit",
    "prepare-commit-msg", "commit-msg", "post-commit", "pre-rebase", "post-checkout",
    "post-merge", "pre-push", "pre-receive",
    "update", "proc-receive", "post-receive", "post-update", "reference-transaction", "push-to-checkout",
    "pre-auto-gc", "post-rewrite", "sendemail-validate", "fsmonitor-watchman", "p4-changelist",
    "post-index-change",
)  # fmt: skip
# Keys that decide on the format of a repository, which git refuses, and that name no program.
OF_FORMAT = re.compile(
    r"^(extensions|core\.(repositoryformatversion|bare)|index|pack|gc|feature)\b", re.I
)
PROGRAM_VARIABLES = (
    "GIT_EXTERNAL_DIFF", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_PAGER", "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR", "GIT_PROXY_COMMAND", "PAGER", "EDITOR", "SSH_ASKPASS",
)  # fmt: skip


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A work tree with one commit whose attributes name a filter for every file."""
    path = tmp_path / "work"
    path.mkdir()
    git(path, "init", "-q", "-b", "main")
    for name, content in CONTENT.items():
        (path / name).write_bytes(content)
    # hash-object and update-index: the attributes above change nothing of what is committed.
    for name in CONTENT:
        blob = git(path, "hash-object", "-w", "--no-filters", name).decode().strip()
        git(path, "update-index", "--add", "--cacheinfo", f"100644,{blob},{name}")
    git(path, "commit", "-q", "-m", "one")
    return path


def canary(folder: Path) -> Path:
    """Return a program that leaves the file CANARY next to it."""
    program = folder / "canary"
    program.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{folder}/CANARY'\ncat\n")
    program.chmod(0o755)
    return program


def program_keys() -> list[str]:
    """Return every configuration key of the installed git, with names in place of the placeholders."""
    listed = subprocess.run(
        ["git", "help", "--config-for-completion"], capture_output=True, text=True
    )
    keys = listed.stdout.split() if listed.returncode == 0 else []
    known = subprocess.run(["git", "help", "--config"], capture_output=True, text=True, check=True)
    keys += [word for word in known.stdout.split() if "." in word and "'" not in word]
    keys = [re.sub(r"<[^>]*>|\*", "canary", key) for key in keys]
    return sorted(
        {
            key
            for key in keys
            if re.fullmatch(r"[A-Za-z0-9-]+(\.[\w.-]+)*\.[A-Za-z][A-Za-z0-9-]*", key)
        }
    )


def read_everything(path: Path, folder: Path) -> Path:
    """Detect, estimate, convert and take the tree of a repository, as plan and run do."""
    definition = sources.detect(str(path))
    source = sources.open_source("mine", {**definition, "history": "whole"})
    source.check()
    source.identity()
    source.describe()
    source.estimate()
    source.write(io.BytesIO())
    folder.mkdir()
    heads.take(source.head(), folder / "tree", folder, "svn")
    return folder / "tree"


def content_of(tree: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in tree.iterdir()}


def test_git_source_with_canaries_everywhere_runs_none(work: Path, tmp_path: Path) -> None:
    program = canary(tmp_path)
    keys = program_keys()
    assert {"core.fsmonitor", "core.sshCommand", "filter.canary.smudge", "diff.external"} <= set(
        keys
    )
    config = [(work / ".git/config").read_text()]
    for key in (*keys, "diff.canary.textconv", "diff.canary.command", "filter.canary.process"):
        section, _, name = key.rpartition(".")
        first, _, rest = section.partition(".")
        if not OF_FORMAT.match(key) and not name.lower().endswith("promisor"):
            head = f'[{first} "{rest}"]' if rest else f"[{first}]"
            config.append(f"{head}\n\t{name} = {program}\n")
    (work / ".git/config").write_text("".join(config))
    for hook in HOOKS:
        shutil.copy(program, work / ".git/hooks" / hook)
    assert content_of(read_everything(work, tmp_path / "out")) == CONTENT
    assert not (tmp_path / "CANARY").exists()


@pytest.mark.slow
@pytest.mark.parametrize("key", ["core.fsmonitor", "filter.canary.smudge", "filter.canary.process"])
def test_git_source_with_one_program_runs_none(work: Path, tmp_path: Path, key: str) -> None:
    git(work, "config", key, str(canary(tmp_path)))
    git(work, "config", "core.autocrlf", "true")
    assert content_of(read_everything(work, tmp_path / "out")) == CONTENT
    assert not (tmp_path / "CANARY").exists()


def test_git_source_with_hostile_environment_reads_the_same(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert content_of(read_everything(work, tmp_path / "out")) == CONTENT
    assert not (tmp_path / "CANARY").exists()


def test_git_source_with_replacements_and_grafts_reads_the_commit(
    work: Path, tmp_path: Path
) -> None:
    git(work, "commit", "-q", "--allow-empty", "-m", "two")
    expected = digest(git_source(work))
    blob = git(work, "rev-parse", "HEAD:plain.txt").decode().strip()
    lie = git(work, "hash-object", "-w", "--stdin", stdin=b"a lie").decode().strip()
    git(work, "replace", blob, lie)
    head = git(work, "rev-parse", "HEAD").decode()
    (work / ".git/info/grafts").write_text(head)
    (work / ".git/info/attributes").write_text("* filter=canary export-ignore\n")
    assert digest(git_source(work)) == expected
    assert content_of(read_everything(work, tmp_path / "out")) == CONTENT


@pytest.mark.slow
def test_git_tree_of_bare_repository_equals_its_work_tree(work: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(work), "bare.git")
    assert content_of(read_everything(tmp_path / "bare.git", tmp_path / "out")) == CONTENT


@pytest.mark.parametrize("kind", ["pipe", "zero"])
def test_git_file_that_is_a_pipe_or_endless_is_refused(work: Path, kind: str) -> None:
    names = (
        "HEAD", "config", "packed-refs", "shallow", "commondir", "refs/heads/main",
        "objects/info/alternates", "objects/pack/pack-x.idx", "objects/aa/b",
    )  # fmt: skip
    for name in names:
        file = work / ".git" / name
        content = file.read_bytes() if file.exists() else None
        file.unlink(missing_ok=True)
        file.parent.mkdir(exist_ok=True)
        if kind == "pipe":
            os.mkfifo(file)
        else:
            file.symlink_to("/dev/zero")
        with pytest.raises(UserError, match="not a regular file"):
            sources.detect(str(work))
        file.unlink()
        if content is not None:
            file.write_bytes(content)


def test_git_include_of_a_pipe_is_not_read(work: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with (work / ".git/config").open("a") as config:
        config.write(
            f'[include]\n\tpath = {tmp_path}/pipe\n[includeIf "gitdir:/"]\n\tpath = {tmp_path}/pipe\n'
        )
    assert content_of(read_everything(work, tmp_path / "out")) == CONTENT


def tree_of(path: Path, *lines: str) -> str:
    """Return the tree that mktree makes of lines like those of ls-tree."""
    text = "".join(line + "\n" for line in lines).encode()
    return git(path, "mktree", "--missing", stdin=text).decode().strip()


def raw_tree(path: Path, *entries: tuple[bytes, bytes, str]) -> str:
    """Return a tree of any entries of mode, name and object, which git itself would not make."""
    data = b"".join(
        mode + b" " + name + b"\0" + bytes.fromhex(blob) for mode, name, blob in entries
    )
    words = ("hash-object", "-t", "tree", "--literally", "-w", "--stdin")
    return git(path, *words, stdin=data).decode().strip()


def commit_tree(path: Path, tree: str) -> None:
    name = git(path, "commit-tree", "-m", "a tree", tree).decode().strip()
    git(path, "update-ref", "refs/heads/main", name)


def test_git_tree_with_entries_that_leave_the_folder_writes_inside(
    work: Path, tmp_path: Path
) -> None:
    blob = git(work, "rev-parse", "HEAD:plain.txt").decode().strip()
    inner = raw_tree(work, (b"100644", b"evil", blob))
    commit_tree(work, raw_tree(work, (b"40000", b"..", inner), (b"100664", b".git", blob)))
    tree = read_everything(work, tmp_path / "out")
    assert sorted(p.relative_to(tree).as_posix() for p in tree.rglob("*")) == [
        "?\\046?\\046", "?\\046?\\046/evil", "?\\046git",
    ]  # fmt: skip
    assert (tree / "?\\046git").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("second", [b"100644", b"40000"])
def test_git_tree_with_one_name_twice_is_refused(work: Path, tmp_path: Path, second: bytes) -> None:
    target = (
        git(work, "hash-object", "-w", "--stdin", stdin=str(tmp_path).encode()).decode().strip()
    )
    inner = raw_tree(work, (b"100644", b"evil", target))
    other = inner if second == b"40000" else target
    commit_tree(work, raw_tree(work, (b"120000", b"a", target), (second, b"a", other)))
    source = git_source(work)
    with pytest.raises(UserError, match="twice"):
        source.write(io.BytesIO())
    (tmp_path / "out").mkdir()
    with pytest.raises(UserError, match=r"damaged|twice"):
        heads.take(source.head(), tmp_path / "out/tree", tmp_path / "out", "svn")
    assert not (tmp_path / "evil").exists()


@pytest.mark.slow
def test_git_tree_that_is_too_deep_is_refused(work: Path) -> None:
    tree = git(work, "rev-parse", "HEAD^{tree}").decode().strip()
    for _ in range(300):
        tree = raw_tree(work, (b"40000", b"d", tree))
    commit_tree(work, tree)
    for read in (lambda s: s.estimate(), lambda s: s.write(io.BytesIO())):
        with pytest.raises(UserError, match="nested deeper than 256"):
            read(git_source(work))


def test_git_tree_and_export_are_equal(tmp_path: Path) -> None:
    nodes = {
        b"a/.svn/format": (FILE, b"12"), b"CVS/Root": (FILE, b"x"), b"b/.GIT": (FILE, b"y"),
        b"x" * 300: (FILE, b"z"), b"link": (SYMLINK, b"../a"), b"empty": (SYMLINK, b""),
        b"esc\x1b[31m/bell\x07": (FILE, b"c"), b"latin-\xe9": (FILE, b"l"), b"line\n": (FILE, b"n"),
        b"odd-link": (SYMLINK, b"to\x1b\xe9"),
    }  # fmt: skip
    path = make_git(tmp_path / "git", [Commit(nodes)])
    source = git_source(path)
    with (tmp_path / "dump").open("wb") as out:
        facts = source.write(out)
    subprocess.run(["svnadmin", "create", tmp_path / "svn"], check=True)
    with (tmp_path / "dump").open("rb") as stream:
        subprocess.run(["svnadmin", "load", "-q", tmp_path / "svn"], stdin=stream, check=True)
    subprocess.run(
        ["svn", "checkout", "-q", f"file://{tmp_path}/svn/trunk", tmp_path / "wc"],
        check=True, env={**os.environ, "LC_ALL": "C.UTF-8"},
    )  # fmt: skip
    (tmp_path / "out").mkdir()
    notes = heads.take(source.head(), tmp_path / "out/tree", tmp_path / "out", "svn")
    compared = subprocess.run(
        [
            "diff",
            "-r",
            "--no-dereference",
            "--exclude=.svn",
            tmp_path / "wc",
            tmp_path / "out/tree",
        ],
        capture_output=True,
    )
    assert (compared.returncode, compared.stdout) == (0, b"")
    assert sorted(facts.notes) == sorted(notes) and len(notes) == 5


def test_git_tree_module_with_missing_repository_exits_with_one_line(tmp_path: Path) -> None:
    workflow = str(Path(sources.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-m", "vcsbench.sources", "git", tmp_path, "0" * 40, tmp_path / "tree"],
        env={**os.environ, "PYTHONPATH": workflow}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
