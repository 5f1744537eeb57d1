"""What a report is cited by comes from its results: the study, the code, the configuration, the command."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from project import needs
from unit.html_tree import parse
from unit.report_files import make_files, results_of
from vcsbench import __version__
from vcsbench.report.page import build_page
from vcsbench.report.results import Results
from vcsbench.run.provenance import digest_of, provenance, store_command

ROOT = Path(__file__).parents[2]
AXES = {"command": ["log"], "ra": ["svn"], "repo": ["ruby"], "format": ["f6", "f7"]}
AXES |= {"packing": ["pack"], "config": ["slow"], "cache": ["cold"]}
SAID = {
    "vcsbench": "0.1.0",
    "commit": "0123456789abcdef" * 2 + "01234567",
    "changed": [],
    "command": "snakemake --cores all --config minutes=15",
    "config_digest": "feedface" * 8,
    "config": {},
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return results_of(make_files(tmp_path_factory.mktemp("cited"), axes=AXES))


def footer(results: Results, **said: Any) -> tuple[dict[str, str], dict[str, str]]:
    """What stands in the page's last section, and in its head."""
    tree = parse(build_page(replace(results, provenance={**SAID, **said} if said else SAID)))
    section = tree.by_id("cite")
    shown = {d.all("dt")[0].text: d.all("dd")[0].text for d in section.all("div")}
    metas = {
        m.attributes.get("name", ""): m.attributes.get("content", "") for m in tree.all("meta")
    }
    return shown, metas


def test_the_footer_and_the_head_say_what_made_it(results: Results) -> None:
    shown, metas = footer(results)
    assert shown["Made by"] == f"vcsbench 0.1.0, commit {SAID['commit']}, unchanged"
    assert str(SAID["config_digest"]) in shown["Configuration"]
    assert shown["Command"] == SAID["command"]
    assert shown["Measured"].startswith("21 November 2026, 07:00")
    assert shown["Cite as"] == (
        "vcsbench 0.1.0 (commit 0123456789ab; configuration feedfacefeed). Study fsfs-san-2014: "
        f"{results.study.title}. Measured {shown['Measured']}."
    )
    assert metas["vcsbench:commit"] == SAID["commit"]
    assert metas["vcsbench:config-sha256"] == SAID["config_digest"]
    assert metas["vcsbench:command"] == SAID["command"]
    assert metas["vcsbench:study-date"] == "2014"


def test_authors_are_said_where_they_are_known_and_never_made_up(results: Results) -> None:
    shown, metas = footer(results)
    assert "Who published it is not recorded" in shown["Study"]
    assert metas["vcsbench:study-authors"] == ""
    study = replace(results.study, authors=["A. Author", "B. Author"], url="https://example.org/a")
    shown, metas = footer(replace(results, study=study))
    assert "(fsfs-san-2014; A. Author, B. Author, 2014)" in shown["Study"]
    assert "https://example.org/a" in shown["Study"] and "not recorded" not in shown["Study"]
    assert metas["vcsbench:study-authors"] == "A. Author; B. Author"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"changed": ["Snakefile"]}, "with changes in Snakefile"),
        ({"changed": [f"workflow/{n}" for n in range(9)]}, "with changes in 9 files"),
        ({"commit": ""}, "of no commit that is known"),
    ],
)
def test_changes_are_said(results: Results, said: dict[str, Any], told: str) -> None:
    assert footer(results, **said)[0]["Made by"].endswith(told)


def test_a_report_of_results_without_it_says_so(results: Results) -> None:
    page = build_page(results)
    assert "It is not recorded which vcsbench put the measurements together." in page


@needs("git")
def test_the_commit_and_the_changed_files_are_the_checkouts(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        command = ["git", "-C", str(tmp_path), *who, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    assert provenance(tmp_path, {})["commit"] == "", "no work tree"
    git("init", "-q")
    for name in ("Snakefile", "workflow/a b.py", "README.md"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("1\n")
    git("add", "-A")
    git("commit", "-qm", "first")
    said = provenance(tmp_path, {})
    assert (said["commit"], said["changed"]) == (git("rev-parse", "HEAD"), [])
    assert said["vcsbench"] == __version__
    for name in ("workflow/a b.py", "workflow/new.py", "README.md"):
        (tmp_path / name).write_text("2\n")
    assert provenance(tmp_path, {})["changed"] == ["workflow/a b.py", "workflow/new.py"]
    (tmp_path / "below").mkdir()
    assert provenance(tmp_path / "below", {})["commit"] == "", "of another work tree"


def test_the_command_is_told_as_it_can_be_typed_and_no_secret_is_kept(tmp_path: Path) -> None:
    (tmp_path / ".snakemake").mkdir()
    config = {"repository": "svn://me:word@host/a", "minutes": 15}
    store_command(tmp_path, ["--config", "repository=svn://me:word@host/a b"])
    said = provenance(tmp_path, config)
    assert said["command"] == "snakemake --config 'repository=svn://...@host/a b'"
    assert said["config"] == {"repository": "svn://...@host/a", "minutes": 15}
    assert "word" not in json.dumps(said)
    assert said["config_digest"] == digest_of(dict(reversed(said["config"].items())))
    assert said["config_digest"] != provenance(tmp_path, {**config, "minutes": 16})["config_digest"]


def test_the_citation_file_is_of_this_version() -> None:
    """What CFF 1.2.0 asks for, and what must agree with the rest."""
    said = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert said["cff-version"] == "1.2.0" and said["type"] == "software"
    assert said["message"] and said["title"] and said["authors"]
    assert all({"name", "family-names"} & author.keys() for author in said["authors"])
    assert str(said["version"]) == __version__
    assert said["license"] == "Apache-2.0"
