"""The provenance of results: the code, the configuration and the command; and the citation file."""

import pytest
import yaml

from git_histories import git
from project import ODD_FILES, ROOT, needs
from vcsbench import __version__
from vcsbench.run.provenance import COMMAND, provenance, store_command


@needs("git")
def test_provenance_has_the_commit_and_the_changed_files(tmp_path):
    assert provenance(tmp_path, {})["commit"] == "", "no work tree"
    git(tmp_path, "init", "-q")
    for name in ("Snakefile", "workflow/a b.py", "README.md"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("1\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "first")
    record = provenance(tmp_path, {})
    commit = git(tmp_path, "rev-parse", "HEAD").decode().strip()
    assert (record["commit"], record["changed"]) == (commit, [])
    assert record["vcsbench"] == __version__
    for name in ("workflow/a b.py", "workflow/new.py", "README.md"):
        (tmp_path / name).write_text("2\n")
    assert provenance(tmp_path, {})["changed"] == ["workflow/a b.py", "workflow/new.py"]
    (tmp_path / "below").mkdir()
    assert provenance(tmp_path / "below", {})["commit"] == ""


def test_provenance_quotes_the_command(tmp_path):
    (tmp_path / ".snakemake").mkdir()
    config = {"repository": "/srv/a b", "minutes": 15}
    store_command(tmp_path, ["--config", "repository=/srv/a b"])
    record = provenance(tmp_path, config)
    assert record["command"] == "snakemake --config 'repository=/srv/a b'"
    assert record["config"] == config
    digests = [
        provenance(tmp_path, keys)["config_digest"]
        for keys in (config, dict(reversed(config.items())), {**config, "minutes": 16})
    ]
    assert digests[0] == digests[1] != digests[2]


def test_citation_file_has_this_version():
    record = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert record["cff-version"] == "1.2.0" and record["type"] == "software"
    assert record["message"] and record["title"] and record["authors"]
    assert (str(record["version"]), record["license"]) == (__version__, "Apache-2.0")


@pytest.mark.parametrize("odd", ["pipe", "folder"])
def test_provenance_with_an_odd_file_of_the_command_has_none(tmp_path, odd):
    (tmp_path / COMMAND).parent.mkdir()
    ODD_FILES[odd](tmp_path / COMMAND)
    assert provenance(tmp_path, {})["command"] == ""
