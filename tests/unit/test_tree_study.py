"""The study of tree building: strategies, their stores, lost features, and the best of several runs."""

import errno
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from project import CONFIG, mounted, needs, needs_root, write_program
from unit.study_grid import published_table, study_grid
from vcsbench import programs
from vcsbench.axes import axis_of
from vcsbench.config.study_reader import load_study
from vcsbench.environment import program_environment
from vcsbench.errors import UserError
from vcsbench.evidence import same_work
from vcsbench.measure.cell_setup import PYTHON, CellSetup, fill_template
from vcsbench.measure.work import UrlNormaliser, inspect_built_tree
from vcsbench.plan.recipe import draft_recipe, why_not
from vcsbench.sources import open_source
from vcsbench.subjects import strategies
from vcsbench.subjects.templates import make_template
from vcsbench.subjects.tree import BuiltTree, Tree, checkout_head, count_lost_features
from vcsbench.subjects.tree_stores import STORES

STUDY = load_study(CONFIG / "studies" / "tree-building-2007.yaml")
BUILDING = {name: c for name, c in STUDY.commands.items() if c.work == "built_tree"}
NEUTRAL = UrlNormaliser("")

made = partial(study_grid, STUDY.name)


def table(name):
    found = published_table(STUDY.name, name)
    rows = found.assign(strategy=found.get("strategy", ""))[["strategy", "candidate", "value"]]
    return {(strategy, candidate): value for strategy, candidate, value in rows.to_numpy()}


def test_published_numbers_reach_tables():
    best, worst = table("best"), table("worst")
    assert best["cp", ""] == 2.183 and best["checkout", ""] == 91.19 and len(best) == 6
    assert worst == {("cp", ""): 12.05, ("transform", ""): 28.912}
    shares = table("cp-vs-others")
    assert shares["", "copytree"] == pytest.approx(100 * (2.183 / 5.513 - 1))
    assert shares["", "transform"] == pytest.approx(100 * (2.183 / 26.227 - 1))


def reason(strategy):
    here, _ = made({"filesystem": ["storage", "ext4", "tmpfs", "btrfs"]})
    axes = {"strategy": strategy, "repo": "linux", "filesystem": "storage", "cache": "hot-os"}
    return why_not(axes, draft_recipe(STUDY, axes, here), here)


def test_strategy_without_its_program_is_skipped(monkeypatch, tmp_path):
    monkeypatch.setattr(programs, "BUILT", tmp_path)
    assert reason("fewest calls").startswith("build_tree ")
    (tmp_path / "bin").mkdir()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    assert reason("transform").endswith(sys.executable)
    package = tmp_path / "lib/python3.11/site-packages/breezy-3.3.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").touch()
    assert reason("transform") == ""


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    (root / "folder" / "below").mkdir(parents=True)
    (root / "none").mkdir()
    (root / "text").write_text("a line\n")
    (root / "nothing").touch()
    (root / "folder" / "bytes").write_bytes(bytes(range(256)) * 300)
    (root / "folder" / "below" / "ends\r").write_bytes(b"a\r\nb\n")
    (root / "folder" / "with space and \N{LATIN SMALL LETTER E WITH ACUTE}").write_text("x")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "private").write_text("mine")
    (root / "private").chmod(0o600)
    os.link(root / "text", root / "folder" / "text too")
    (root / "link").symlink_to("folder/bytes")
    (root / "dangling").symlink_to("nowhere")
    (root / ".gitignore").write_text("*.o\n")
    (root / ".hgignore").write_text("o$\n")
    (root / "left.o").write_text("not left out")
    (root / ".gitattributes").write_text("* text=auto eol=crlf ident\nrun.sh export-ignore\n")
    return root


def missing(command):
    program = command.argv.split()[0]
    needs = [*(command.needs or []), *([] if "{" in program else [program])]
    if command.store == "brz":
        needs.append("python3:breezy")
    return next((need for need in needs if not programs.path_of(need)), "")


def recipe_of(tree, store, storage):
    storage.mkdir(exist_ok=True)
    head = {"kind": "directory", "path": str(tree)}
    identity = open_source("tree", {"source": "directory", "path": str(tree)}).identity()
    return {
        "repository": {"identity": identity, "head": head},
        "store": store,
        "storage": {"path": str(storage)},
        "filesystem": {"make": "", "root": str(storage)},
        "binaries": {},
        "build": {"client": {}},
    }


def store_record(tree, store, storage):
    return Tree(recipe_of(tree, store, storage), 1, storage, Path.cwd()).store_record


# Features of a tree that strategies lose. The others lose hard links only.
LIKE_SVN = ("svn checkout", "svn export", "transform", "checkout")
LIKE_GIT = ("git clone", "git clone workers", "git worktree", "jj clone", "hg clone", "fossil open")
LOSES = {
    **dict.fromkeys(("tar", "fewest calls"), frozenset()),
    **dict.fromkeys(LIKE_SVN, frozenset({"modes", "hard-links"})),
    **dict.fromkeys(LIKE_GIT, frozenset({"modes", "hard-links", "empty-folders"})),
}


@pytest.mark.parametrize("name", [name for name in BUILDING if name != "cp reflink"])
def test_strategy_builds_the_tree(name, tree, tmp_path):
    command = STUDY.commands[name]
    if why := missing(command):
        pytest.skip(f"not installed: {why}")
    # Another test checks odd names.
    (tree / "folder" / "below" / "ends\r").rename(tree / "folder" / "below" / "ends")
    private, target = tmp_path / "private", tmp_path / "built"
    private.mkdir()
    stored = Path(store_record(tree, command.store or "", tmp_path / "storage")["path"])
    words = {
        **dict.fromkeys(("source", "store", "store_url"), str(stored)),
        "target": str(target),
        "svn": ["svn", "--non-interactive", "--config-dir", str(private)],
        "built": str(programs.BUILT),
        "python": PYTHON,
        "program": [*PYTHON, strategies.__file__, command.program or ""],
    }
    own = {n: v.replace("{run}", str(private)) for n, v in (command.environment or {}).items()}
    argv = fill_template(command.argv, words)
    subprocess.run(argv, env=program_environment(own), check=True)
    assert inspect_built_tree(target, NEUTRAL) == inspect_built_tree(tree, NEUTRAL)
    STORES[command.store or ""].clean(stored)
    lost = {feature for feature, number in count_lost_features(tree, target).items() if number}
    assert lost == LOSES.get(name, {"hard-links"})


def test_tree_file_system_has_room_for_its_templates_once(tree, tmp_path):
    with (tree / "large").open("wb") as file:
        file.truncate(100 << 20)
    storage = tmp_path / "storage"
    subject = Tree(recipe_of(tree, "", storage), 1, tmp_path, Path.cwd())
    record = subject.source_record
    subject.check()
    assert subject.filesystem.size == subject.prepare()
    assert subject.filesystem.size == subject.filesystem.size_for(2 * record["bytes"])
    subject.discard()


def open_cell(*subjects):
    """Check subjects as a cell-round does, and discard them."""
    with ExitStack() as stack:
        CellSetup.open(SimpleNamespace(recipe={}, subjects=subjects), stack)


@needs_root
def test_tree_that_fills_its_file_system_leaves_nothing_there(tree, tmp_path):
    with mounted(tmp_path / "full", "size=64k") as full:
        recipe = recipe_of(tree, "", tmp_path / "storage")
        recipe["filesystem"]["root"] = str(full)
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            open_cell(Tree(recipe, 1, tmp_path, Path.cwd()))
        assert not [*full.glob("vcsbench-*/targets/*")]


def test_built_tree_without_a_tree_is_refused_and_discarded(tree, tmp_path):
    recipe = recipe_of(tree, "", tmp_path / "storage")
    with pytest.raises(UserError, match="input: tree"):
        open_cell(BuiltTree(recipe, 1, tmp_path, Path.cwd()))


@needs("git")
def test_reset_after_an_idle_run_opens_the_idle_store_only(tree, tmp_path):
    """In a cold cell, the caches are cleared by then."""
    recipe = recipe_of(tree, "git", tmp_path / "storage") | {"work_kind": "built_tree"}
    source = Tree(recipe, 1, tmp_path, Path.cwd())
    source.check()
    built = BuiltTree(recipe, 1, tmp_path, Path.cwd())
    built.input = source
    built.check()
    work = tmp_path / "work"
    for store in (source.path, source.idle):
        argv = ["git", f"--git-dir={store}", "worktree", "add", "-q", "--detach", work]
        subprocess.run(argv, check=True)
        shutil.rmtree(work)
    built.path.mkdir()

    def kept(store):
        return [path.name for path in store.glob("worktrees/*")]

    built.restore_after_idle_run()
    assert (kept(source.path), kept(source.idle)) == (["work"], [])
    assert not built.path.exists() and built.path.parent.exists()
    built.restore()
    assert kept(source.path) == []
    built.discard()
    source.discard()


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_template_that_fails_leaves_nothing(tmp_path, error):
    def make(path, temporary):
        path.mkdir()
        (path / "half").write_text("half")
        (temporary / "other half").write_text("half")
        raise error

    with pytest.raises(type(error)):
        make_template(tmp_path / "tree", make)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("check_state", [True, False])
def test_template_with_another_time_is_made_again_except_in_a_guest(tmp_path, check_state):
    def make(path, temporary):
        path.mkdir()
        (path / "file").write_text("x")
        return {}

    path = tmp_path / "tree"
    make_template(path, make)
    os.utime(path / "file", ns=(1, 1))
    make_template(path, make, check_state=check_state)
    is_kept = (path / "file").stat().st_mtime_ns == 1
    assert is_kept is not check_state


@needs("git")
def test_store_that_somebody_changed_is_made_again(tree, tmp_path):
    record = store_record(tree, "git", tmp_path / "storage")
    # A new store would have other times.
    assert store_record(tree, "git", tmp_path / "storage") == record
    head = Path(record["path"]) / "HEAD"
    head.write_text("ref: refs/heads/nothing\n")
    store_record(tree, "git", tmp_path / "storage")
    assert "nothing" not in head.read_text()


@needs("git")
def test_store_that_runs_have_changed_is_kept(tree, tmp_path):
    storage = tmp_path / "storage"
    subject = Tree(recipe_of(tree, "git", storage), 1, tmp_path, Path.cwd())
    subject.check()
    # A run of `git worktree` leaves such a folder.
    entry = subject.path / "worktrees" / "work"
    entry.mkdir(parents=True)
    subject.discard()
    assert store_record(tree, "git", storage)["path"] == str(subject.path)
    assert entry.exists()


@pytest.mark.parametrize(
    ("store", "gets_traces"), [("", False), ("svn", False), ("git", True), ("fossil", True)]
)
def test_only_stores_that_are_cleaned_get_traces_of_runs(tree, tmp_path, store, gets_traces):
    recipe = recipe_of(tree, store, tmp_path / "storage")
    assert Tree(recipe, 1, tmp_path, Path.cwd()).gets_traces is gets_traces


def test_store_without_a_name_it_cannot_carry_counts_it(tree, tmp_path):
    if why := missing(STUDY.commands["checkout"]):
        pytest.skip(f"not installed: {why}")
    (tree / "folder" / ".hgsub").write_text("only at the top it names repositories\n")
    (tree / ".hgsub").write_text("sub = /nowhere\n")
    # The escaped name in the tree has a backslash, which Breezy refuses.
    for store, count in {"svn": 0, "git": 0, "hg": 2, "brz": 1}.items():
        record = store_record(tree, store, tmp_path / "storage")
        assert record["left_out"] == count, store


@needs("git", "svn", "svnadmin")
@pytest.mark.parametrize("kind", ["git", "svn"])
def test_checkout_head_has_the_committed_tree(kind, tree, tmp_path):
    (tree / ".gitattributes").write_text("run.sh export-ignore\n")
    (tree / "folder" / "below" / "ends\r").unlink()
    before, repository = inspect_built_tree(tree, NEUTRAL), tree
    if kind == "git":
        git = ["git", "-C", str(tree), "-c", "user.name=x", "-c", "user.email=x@y"]
        for words in (["init", "-q"], ["add", "-f", "-A"], ["commit", "-q", "-m", "x"]):
            subprocess.run([*git, *words], check=True)
        (tree / "text").write_text("changed, and not committed\n")
    else:
        repository = tmp_path / "repository"
        subprocess.run(["svnadmin", "create", repository], check=True)
        url = f"file://{repository}/trunk"
        subprocess.run(["svn", "import", "-q", "--no-ignore", "-m", "x", tree, url], check=True)
    head = open_source("mine", {"source": kind, "path": str(repository)}).head()
    (tmp_path / "private").mkdir()
    checkout_head(head, tmp_path / "head", shutil.which("svn") or "")
    assert inspect_built_tree(tmp_path / "head", NEUTRAL) == before


@needs("svn", "svnadmin")
def test_tree_of_a_subversion_head_is_exported_with_the_libraries_of_the_build(tree, tmp_path):
    (tree / "folder" / "below" / "ends\r").unlink()
    repository, build, used = (tmp_path / name for name in ("repository", "my build", "used"))
    subprocess.run(["svnadmin", "create", repository], check=True)
    url = f"file://{repository}/trunk"
    subprocess.run(["svn", "import", "-q", "--no-ignore", "-m", "x", tree, url], check=True)
    script = f'#!/bin/sh\necho "$LD_LIBRARY_PATH" >>{used}\nexec {shutil.which("svn")} "$@"\n'
    write_program(build / "bin" / "svn", script)
    recipe = recipe_of(tree, "", tmp_path / "storage")
    source = open_source("mine", {"source": "svn", "path": str(repository)})
    recipe["repository"]["head"] = source.head()
    recipe["build"]["client"] = {"prefix": str(build), "library_path": "/opt/my lib"}
    record = Tree(recipe, 1, tmp_path, Path.cwd()).source_record
    exported = inspect_built_tree(Path(record["path"]), NEUTRAL)
    assert exported == inspect_built_tree(tree, NEUTRAL)
    assert set(used.read_text().splitlines()) == {"/opt/my lib"}


def test_same_work_of_unchecked_work_is_refused():
    unchecked, other = '{"apart":1,"files":1}', '{"files":2}'
    refusal = same_work.refusal("", {"one file": unchecked, "cp": other})
    assert refusal and refusal.reason
    assert same_work.figures_of(unchecked) == "1 files"


def test_filesystem_axis_on_ext4_without_journal_makes_one(monkeypatch):
    """Without a journal, the removal of old files would be part of the measurement."""
    here, _ = made()
    axis, place = axis_of("filesystem"), "vcsbench.axes.storage_axes"
    for lacks, cannot, kind in ((True, "", "ext4"), (True, "no right", ""), (False, "", "")):
        monkeypatch.setattr(f"{place}.lacks_journal", lambda _path, lacks=lacks: lacks)
        monkeypatch.setattr(f"{place}.why_cannot_make", lambda _kind, cannot=cannot: cannot)
        part = axis.recipe_keys("storage", here)["filesystem"]
        assert (part["make"], bool(part["mounted"])) == (kind, not kind)


@pytest.mark.parametrize("filesystem", ["storage", "ext4"])
@pytest.mark.parametrize(("storage", "folder"), [("ram", "ram"), ("disk", "disk"), ("", "disk")])
def test_filesystem_of_the_storage_is_on_that_of_the_cell(tmp_path, filesystem, storage, folder):
    folders = {name: str(tmp_path / name) for name in ("disk", "ram")}
    for path in folders.values():
        os.mkdir(path)
    here, _ = made(storages=folders)
    axes = {"strategy": "cp", "repo": "linux", "filesystem": filesystem, "cache": "hot-os"}
    draft = draft_recipe(STUDY, {**axes, "storage": storage}, here)
    assert draft["filesystem"]["root"] == os.path.realpath(folders[folder])


@pytest.mark.parametrize("filesystem", ["storage", "ext4"])
def test_filesystem_with_the_reserved_name_is_refused(filesystem):
    here, _ = made(filesystems={"storage": "/dev/shm"})
    with pytest.raises(UserError, match=r"`filesystems\.storage`"):
        axis_of("filesystem").recipe_keys(filesystem, here)
