"""Recipes: a cell is stale if a module changes that runs for it."""

import dataclasses
import os
import re
import shutil

import pytest

from unit.study_grid import study_grid
from vcsbench import modules
from vcsbench.plan import recipe
from vcsbench.storages.filesystems import Mount
from vcsbench.storages.workdir import resolve

CELLS = {
    "log": {"input": "repository", "output": ""},
    "checkout": {"input": "repository", "output": "working_copy"},
    "cp": {"input": "tree", "output": "built_tree"},
    "copytree": {"input": "tree", "output": "built_tree", "program": "copytree"},
}
ALL = set(CELLS)


@pytest.fixture
def package(tmp_path, monkeypatch):
    copy = tmp_path / "workflow" / "vcsbench"
    shutil.copytree(modules.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(modules, "PACKAGE", copy)
    yield copy
    forget()


def forget():
    for cached in vars(modules).values():
        if hasattr(cached, "cache_clear"):
            cached.cache_clear()


def digests():
    forget()
    return {name: modules.cell_code(cell) for name, cell in CELLS.items()}


@pytest.mark.parametrize(
    ("file", "stale"),
    [
        ("measure/round_measurement.py", ALL),
        ("evidence/judgement.py", ALL),
        ("measure/server.conf", ALL),
        ("programs.py", ALL),
        ("storages/extents.py", ALL),
        ("storages/file_trees.py", ALL),
        ("storages/filesystems.py", ALL),
        ("subjects/strategies.py", {"copytree"}),
        ("subjects/tree.py", {"cp", "copytree"}),
        ("subjects/tree_stores.py", {"cp", "copytree"}),
        ("subjects/working_copy.py", {"checkout"}),
        ("axes/__init__.py", set()),  # the recipe contains the values of axes
        ("prepare/copies.py", set()),
        ("statistics/tables.py", set()),
    ],
)
def test_cell_code_edit_changes_digest_of_its_cells(package, file, stale):
    before = digests()
    with (package / file).open("a") as edited:
        edited.write("\nEDITED = 1\n" if file.endswith(".py") else "\n# edited\n")
    after = digests()
    assert {name for name in CELLS if after[name] != before[name]} == stale


def test_cell_code_comment_or_docstring_edited_keeps_digest(package):
    before = digests()
    for path in package.rglob("*.py"):
        text = path.read_text()
        path.write_text("# A comment.\n" + text.replace('"""', '"""Edited. ', 1) + "\n\n")
    assert digests() == before


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        (b"x = 1\n", b"# why\nx = 1  # because\n", True),
        (b"def f():\n    return 1\n", b'def f():\n    """Return one."""\n\n    return 1\n', True),
        (b"x = f(1, 2)\n", b"x = f(\n    1,\n    2,\n)\n", True),
        (b"x = 1\n", b"x = 2\n", False),
        (b"x = 'a'\n", b"x = 'b'\n", False),
        (b"def f(a): ...\n", b"def f(a=1): ...\n", False),
        (b"if x:\n    y()\nz()\n", b"if x:\n    y()\n    z()\n", False),
        # Other strings are code.
        (b"def f():\n    x = 1\n    'a'\n", b"def f():\n    x = 1\n    'b'\n", False),
    ],
)
def test_syntax_digest_changes_with_code_only(before, after, same):
    assert (modules.syntax_digest(before) == modules.syntax_digest(after)) is same


def test_code_digest_damaged_cache_is_ignored(package, tmp_path, monkeypatch):
    before = digests()
    for content in ("", "[1]", '{"a": 1}', "{", '{"a":' * 100_000, None):
        cache = tmp_path / "cache.json"
        if content is None:
            cache.unlink()
            os.mkfifo(cache)
        else:
            cache.write_text(content)
        monkeypatch.setattr(modules, "CACHE", cache)
        modules._known_digests.cache_clear()
        assert digests() == before
        assert cache.read_text().count(":") > 30


SCRIPTS = modules.PACKAGE.parent / "scripts"
RULES = modules.PACKAGE.parent / "rules"
# A changed loader does not load again: the digests of its copies tell what they are.
WITHOUT_CODE = {"load", "pack", "copy_repo", "dump"}


def test_rules_have_a_script_each_and_its_digest_as_param():
    scripts = []
    for file in sorted(RULES.glob("*.smk")):
        for block in re.split(r"^(?:rule|checkpoint) ", file.read_text(), flags=re.MULTILINE)[1:]:
            rule = block.partition(":")[0]
            for script in re.findall(r'"\.\./scripts/(\w+)\.py"', block):
                scripts.append(script)
                has_digest = f'code=code_of("{script}"),' in block
                assert has_digest is (rule not in WITHOUT_CODE), rule
    assert sorted(scripts) == sorted(path.stem for path in SCRIPTS.glob("*.py"))


def test_script_code_other_scripts_and_comments_edited_keep_digest(package):
    script = SCRIPTS / "make_tables.py"
    forget()
    before = modules.script_code(script)
    for file, edit, changes in (
        ("statistics/tables.py", "\n# Edited.\n", False),
        ("report/page.py", "\nEDITED = 1\n", False),
        ("statistics/tables.py", "\nEDITED = 1\n", True),
    ):
        forget()
        with (package / file).open("a") as edited:
            edited.write(edit)
        assert (modules.script_code(script) != before) is changes


def test_recipe_of_published_cell_keeps_its_digest(monkeypatch):
    # Everything but code, programs and machine, which are fixed here: another digest makes all results stale.
    part = {"command": ["log"], "access": ["svn"], "repo": ["ruby"], "cache": ["cold"]}
    here, (cell, *_) = study_grid("fsfs-san-2014", part)
    for name, fixed in (
        ("cell_code", "code"),
        ("binaries_of", {}),
        ("linked_of", {}),
        ("_identity", ["ext4", "id", "disk"]),
        ("_files_digest", "files"),
    ):
        monkeypatch.setattr(recipe, name, lambda *_, fixed=fixed: fixed)
    monkeypatch.setattr(recipe, "choose_network", lambda *_: recipe.Network.OWN)
    monkeypatch.setattr(here.machine, "clearing", lambda _: "evict")
    parts = recipe.draft_recipe(here.config.studies[cell.study], cell.axes, here)
    parts["repository"] |= {"identity": "identity", "description": "a history"}
    made = recipe.complete_recipe(cell, parts, here)
    assert made["digest"] == "f62ba5edd12db896"
    # Another library, such as libc, and another disk at the same place are other measurements.
    others = {"linked_of": {"client": "x"}, "_identity": ["ext4", "id", "other disk"]}
    for name, other in others.items():
        with monkeypatch.context() as patched:
            patched.setattr(recipe, name, lambda *_, other=other: other)
            assert recipe.complete_recipe(cell, parts, here)["digest"] != made["digest"]
    # The nodes of a cluster have other disks than the login node.
    elsewhere = dataclasses.replace(here, is_elsewhere=True)
    assert "disks" not in recipe.complete_recipe(cell, parts, elsewhere)


@pytest.mark.parametrize(("cache", "ways"), [("cold", 2), ("hot-os", 1)])
def test_digest_depends_on_the_way_to_clear_caches_where_they_are_cleared(monkeypatch, cache, ways):
    part = {"command": "log", "access": "svn", "format": "f7", "config": "slow", "cache": cache}
    here, (cell, *_) = study_grid("fsfs-san-2014", part)
    draft = recipe.draft_recipe(here.config.studies[cell.study], cell.axes, here)
    made = []
    for way in ("evict", "drop-caches"):
        monkeypatch.setattr(here.machine, "clearing", lambda _, way=way: way)
        made.append(recipe.complete_recipe(cell, draft, here))
    assert len({parts["digest"] for parts in made}) == ways
    expected = ["evict", "drop-caches"] if ways == 2 else ["", ""]
    assert [parts["clearing"] for parts in made] == expected


def test_digest_does_not_depend_on_the_time_limit_of_a_run():
    part = {"command": "log", "access": "svn", "format": "f7", "config": "slow", "cache": "cold"}
    made = []
    for limit_s in (600, 6000):
        here, (cell, *_) = study_grid("fsfs-san-2014", part, time_limit_s=limit_s)
        draft = recipe.draft_recipe(here.config.studies[cell.study], cell.axes, here)
        made.append(recipe.complete_recipe(cell, draft, here))
    assert [parts["time_limit_s"] for parts in made] == [600, 6000]
    assert made[0]["digest"] == made[1]["digest"]


def test_recipe_has_disks_of_storage_and_output(tmp_path, monkeypatch):
    monkeypatch.setattr(recipe, "_identity", lambda folder: [folder])
    here, (cell, *_) = study_grid("fsfs-ssd-2014", {"command": ["load"], "access": ["file"]})
    parts = recipe.draft_recipe(here.config.studies[cell.study], cell.axes, here)
    for location in ("storage", "scratch"):
        made = recipe.complete_recipe(cell, {**parts, "output_location": location}, here)
        assert made["targets"] in made["disks"]
        assert str(resolve(made["storage"]["path"], here.root)) in made["disks"]


@pytest.mark.parametrize(
    ("cache", "location", "filesystem", "is_skipped"),
    [
        ("cold", "scratch", "tmpfs", True),
        ("cold", "storage", "tmpfs", False),
        ("cold", "scratch", "ext4", False),
        ("hot-os", "scratch", "tmpfs", False),
    ],
)
def test_cold_commit_from_a_working_copy_in_memory_is_skipped(
    monkeypatch, cache, location, filesystem, is_skipped
):
    part = {"command": "commit", "access": "svn", "cache": cache, "network": "loopback"}
    part |= {"authentication": "none", "access_rules": "0", "repo": "written", "hooks": "none"}
    here, (cell, *_) = study_grid("deployed-server", part, scratch="/nowhere")
    draft = recipe.draft_recipe(here.config.studies[cell.study], cell.axes, here)
    draft |= {"output_location": location}
    kinds = {"/nowhere": filesystem}
    monkeypatch.setattr(
        recipe, "mount_of", lambda folder: Mount("", "/", kinds.get(str(folder), "ext4"))
    )
    assert bool(recipe.why_not_cold_commit(draft, here)) == is_skipped
