"""No program, setting, pipe or device of a git repository takes part when it is read."""

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

from fuzz import limits
from git_canaries import HOOKS, PROGRAM_KEYS, canary, program_keys, set_program_everywhere
from git_histories import (
    CONTENT,
    FILE,
    Commit,
    digest,
    git,
    git_source,
    make_git,
    make_work,
    needs_git,
    read_everything,
    refusal,
    resolve,
    write_blob,
)
from project import open_folder
from vcsbench import sources
from vcsbench.errors import UserError

pytestmark = needs_git

PROGRAM_VARIABLES = (
    "GIT_EXTERNAL_DIFF", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_PAGER", "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR", "GIT_PROXY_COMMAND", "PAGER", "EDITOR", "SSH_ASKPASS",
)  # fmt: skip


def check_read(path, folder):
    """Read the repository of `work` in all ways. Its content is unchanged, and no canary has run."""
    tree = read_everything(path, folder / "out")
    assert {file.name: file.read_bytes() for file in tree.iterdir()} == CONTENT
    assert not (folder / "CANARY").exists()


def test_git_source_with_canaries_in_every_key_and_hook_runs_none(work, tmp_path):
    program = canary(tmp_path)
    keys = program_keys()
    assert {*PROGRAM_KEYS, "core.sshCommand", "diff.external"} <= {*keys}
    os.mkfifo(tmp_path / "pipe")
    with (work / ".git/config").open("a") as config:
        config.write("[core]\n\tautocrlf = true\n")
        for key in ("include", 'includeIf "gitdir:/"'):
            config.write(f"[{key}]\n\tpath = {tmp_path}/pipe\n")
    set_program_everywhere(work, program, HOOKS)
    check_read(work, tmp_path)


def test_git_source_with_hostile_environment_reads_the_same(work, tmp_path, monkeypatch):
    expected = digest(git_source(work))
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
    assert digest(git_source(work)) == expected
    check_read(work, tmp_path)


def test_git_source_with_replacements_and_grafts_reads_the_commit(work, tmp_path):
    git(work, "commit", "-q", "--allow-empty", "-m", "two")
    expected = digest(git_source(work))
    git(work, "replace", resolve(work, "HEAD:plain.txt"), write_blob(work, b"a lie"))
    (work / ".git/info/grafts").write_text(resolve(work, "HEAD"))
    (work / ".git/info/attributes").write_text("* filter=canary export-ignore\n")
    assert digest(git_source(work)) == expected
    check_read(work, tmp_path)


# Pipes, links and devices are in test_repository_files.
ODD = {
    "folder": Path.mkdir,
    "file": Path.touch,
    "large": lambda path: (path.touch(), os.truncate(path, 100 << 20)),
    "NULs": lambda path: path.write_bytes(bytes(60)),
    "unreadable": Path.touch,
}
# Entries of a git folder: those that are read, and the rest.
READ = (
    "", "HEAD", "config", "packed-refs", "refs", "refs/heads", "refs/heads/main", "objects",
    "objects/pack/*.pack", "objects/pack/*.idx", "objects/??/*", "objects/info/alternates", "shallow",
    "commondir", "worktrees/linked/HEAD", "worktrees/linked/commondir", "../../linked/.git",
)  # fmt: skip
UNUSED = (
    "info/grafts", "hooks/post-checkout", "index", "config.worktree", "worktrees/linked/gitdir",
)  # fmt: skip
# Without loose refs, git reads an older state.
OLDER = {
    *((name, "folder") for name in ("refs", "refs/heads", "refs/heads/main")),
    *(("refs/heads", kind) for kind in ODD),
}


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


@pytest.mark.parametrize("folder", [b"x/" * 3000, b"9" * 5000, b"a\0b", b"/etc/passwd", b"\xff"])
def test_git_impossible_path_in_a_file_is_refused(work, tmp_path, folder):
    (work / ".git/objects/info/alternates").write_bytes(folder + b"\n")
    assert "object folder" in refusal(work)
    (tmp_path / ".git").write_bytes(b"gitdir: " + folder)
    assert "which does not exist" in refusal(tmp_path)


def test_git_extension_with_a_subsection_is_refused(work, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with (work / ".git/config").open("a") as config:
        config.write(f'[extensions "[include] path = {tmp_path}/pipe #"]\n\ty = z\n')
    assert "has no extension" in refusal(work)
