"""Server configurations: `default` has the missing files."""

import os
import shutil
import subprocess
from itertools import product
from pathlib import Path

import pytest

from project import CONFIG, DEFAULT
from vcsbench.advice.questions import read_questions
from vcsbench.advice.server_actions import HTTPD_LOCATION, HTTPD_SERVER
from vcsbench.axes.server_axes import server_settings
from vcsbench.config.validation import read_yaml
from vcsbench.errors import UserError
from vcsbench.measure.cell_setup import CellSetup
from vcsbench.measure.server import Httpd
from vcsbench.programs import Programs, server_file, server_files, server_files_digest
from vcsbench.run.project import Project
from vcsbench.systems import SUBVERSION

SERVERS = CONFIG / "servers"
NAMES = {access: definition["files"] for access, definition in SUBVERSION.accesses.items()}
SVNSERVE = ("svn", "svn+ssh")
SETTINGS = ("block-read", "cache-1024", "cache-256", "no-compression", "revprops")
FOLDERS = sorted(path.name for path in SERVERS.iterdir())


@pytest.fixture
def servers(tmp_path):
    return Path(shutil.copytree(SERVERS, tmp_path / "servers"))


def digests(servers):
    return {
        (folder, access): server_files_digest(servers / folder, names)
        for folder in FOLDERS
        for access, names in NAMES.items()
    }


@pytest.mark.parametrize(
    ("file", "stale"),
    [
        ("default/svnserve.args", {*product(["default"], SVNSERVE)}),
        ("fast/svnserve.args", {*product(["fast"], SVNSERVE)}),
        ("default/httpd.conf", {*product(("default", "slow", "threaded"), ("http", "https"))}),
        ("default/client/servers", {*product(FOLDERS, filter(None, NAMES))}),
    ],
)
def test_digest_after_an_edit_differs_for_the_users_of_the_file(servers, file, stale):
    before = digests(servers)
    with (servers / file).open("a") as edited:
        edited.write("# edited\n")
    after = digests(servers)
    assert {key for key, digest in after.items() if digest != before[key]} == stale


def test_server_files_of_a_folder_without_files_are_the_default_ones(servers):
    mine, default = servers / "mine", servers / "default"
    (mine / "client").mkdir(parents=True)
    names = ["svnserve.args", "client"]
    found = server_files(mine, names)
    assert found == server_files(default, names)
    assert set(found) == {"svnserve.args", "client/config", "client/servers"}
    for name in ("client/config", "client/more"):
        (mine / name).touch()
    assert server_files(mine, names) == {
        **{name: mine / name for name in ("client/config", "client/more")},
        **{name: default / name for name in ("client/servers", "svnserve.args")},
    }
    assert server_file(mine, "svnserve.args") == default / "svnserve.args"


@pytest.mark.parametrize("file", ["svnserve.args", "client"])
@pytest.mark.parametrize("to", ["pipe", "/nonexistent", "/dev/zero"])
def test_digest_file_of_another_kind_is_refused_and_not_replaced(servers, file, to):
    path = servers / "mine" / file
    path.parent.mkdir()
    os.mkfifo(path) if to == "pipe" else path.symlink_to(to)
    with pytest.raises(UserError, match=f"^{path}: .*regular file"):
        server_files_digest(servers / "mine", ["svnserve.args", "client"])


@pytest.fixture
def fast(tmp_path):
    """The folder of a server configuration in a checkout, which is tmp_path."""
    shutil.copytree(CONFIG, tmp_path / "config")
    return tmp_path / "config/servers/fast"


@pytest.mark.parametrize("file", ["svnserve.args", "svnadmin.args", "load.args", "link"])
def test_plan_with_an_unusable_server_file_is_refused(tmp_path, fast, file):
    broken = fast / file.replace("link", "svnserve.args")
    broken.unlink(missing_ok=True)
    if file == "link":
        broken.symlink_to("/nonexistent")
    else:
        broken.write_text("--threads\n--log-file '/var/log/x\n")
    with pytest.raises(UserError, match=f"^{broken}: .*(No closing|regular file)"):
        Project(read_yaml(DEFAULT), tmp_path, [])


def test_copy_of_server_files_is_empty_for_a_system_that_reads_none(tmp_path, fast):
    """A server configuration has no effect on git, Mercurial and Fossil."""
    cell = object.__new__(CellSetup)
    cell.root, cell.folder = tmp_path, tmp_path / "run"
    cell.folder.mkdir()
    cell.recipe = {"server_folder": "config/servers/fast", "access": {"files": []}}
    cell.recipe["server_files_digest"] = ""
    assert not [*cell._copy_server_files().iterdir()]


@pytest.fixture
def cell_with_group(tmp_path, fast):
    """Return a function that makes a cell whose client has a group with a setting for some hosts."""

    def make(hosts, setting, scheme="http"):
        (fast / "client").mkdir(exist_ok=True)
        text = f"[groups]\nMine = svn.example.org, {hosts}\n[mine]\n{setting}\n[global]\n"
        (fast / "client" / "servers").write_text(text)
        cell = object.__new__(CellSetup)
        cell.root, cell.folder = tmp_path, tmp_path / "run"
        shutil.rmtree(cell.folder, ignore_errors=True)
        cell.folder.mkdir()
        cell.recipe = {"server_folder": "config/servers/fast", "access": {"files": ["client"]}}
        cell.recipe["access"]["scheme"] = scheme
        cell.recipe["server_files_digest"] = server_files_digest(fast, ["client"])
        option = "servers:global:http-max-connections=1"
        cell.recipe["http_options"] = ["--config-option", option]
        cell.server = Httpd(tmp_path, tmp_path, tmp_path)
        cell.files = cell._copy_server_files()
        return cell

    return make


def test_group_of_the_client_that_replaces_an_option_of_the_label_is_refused(cell_with_group, fast):
    for hosts in ("*", "127.0.0.*"):
        cell = cell_with_group(hosts, "HTTP-Max-Connections = 8")
        expected = f"^{fast}/client/servers: the group `mine` .*`http-max-connections=1`"
        with pytest.raises(UserError, match=expected):
            cell._program("svn")


@pytest.mark.parametrize(
    ("hosts", "setting", "scheme"),
    [
        ("10.*", "http-max-connections = 8", "http"),
        ("*", "http-max-connections = 1", "http"),
        ("*", "http-timeout = 60", "http"),
        ("*", "http-max-connections = 8", "svn"),
    ],
)
def test_group_of_the_client_without_an_effect_on_the_label_is_used(
    cell_with_group, hosts, setting, scheme
):
    config = cell_with_group(hosts, setting, scheme)._client_config
    assert setting in (config / "servers").read_text()


def test_plan_with_notes_and_backups_next_to_server_files_is_made(tmp_path, fast):
    for name in ("README.md", "httpd.conf~", ".svnserve.args.swp"):
        (fast / name).touch()
    Project(read_yaml(DEFAULT), tmp_path, [])


def test_plan_with_a_misspelt_server_file_is_refused(tmp_path, fast):
    (fast / "httpd.cnf").touch()
    with pytest.raises(UserError, match=f"^{fast}/httpd.cnf: .*httpd.conf"):
        Project(read_yaml(DEFAULT), tmp_path, [])


@pytest.mark.parametrize("content", [b"# caf\xe9\n", b"-M 1\0 6\n", b"#" * (1 << 20) + b"\n"])
def test_digest_file_that_is_no_short_text_is_refused(servers, content):
    (servers / "fast/httpd.conf").write_bytes(content)
    with pytest.raises(UserError, match=r"^.*/fast/httpd\.conf: .*(UTF-8|larger than)"):
        server_files_digest(servers / "fast", NAMES["http"])


def lines_of(name, file):
    text = (SERVERS / name / file).read_text()
    return {line.partition("#")[0].strip() for line in text.splitlines()} - {""}


@pytest.mark.parametrize("file", ["svnserve.args", "httpd.conf"])
def test_server_configuration_differs_in_one_setting_and_tuned_has_all(file):
    default, tuned = lines_of("default", file), lines_of("default", file)
    for name in SETTINGS:
        lines = lines_of(name, file)
        assert default < lines and len(lines - default) == 1
        tuned |= lines if name != "cache-1024" else set()
    assert lines_of("tuned", file) == tuned


HTTPD = """
ServerName localhost
ServerRoot "{folder}"
DefaultRuntimeDir "{folder}"
PidFile "{folder}/pid"
ErrorLog "{folder}/log"
Listen 127.0.0.1:80
{modules}
{server}
<Location /svn>
DAV svn
SVNParentPath "{folder}"
{location}
</Location>
"""


def check_httpd(folder, server, location):
    """Return True if httpd accepts directives outside of a <Location> and inside."""
    programs = Programs()
    names = ("mpm_event", "mpm_prefork", "dav", "authz_core")
    paths = {name: Path(programs.httpd_modules, f"mod_{name}.so") for name in names}
    if paths["mpm_event"].exists():
        del paths["mpm_prefork"]
    paths["dav_svn"] = Path(programs.mod_dav_svn)
    modules = [f'LoadModule {n}_module "{path}"' for n, path in paths.items() if path.exists()]
    text = HTTPD.format(folder=folder, modules="\n".join(modules), server=server, location=location)
    (folder / "httpd.conf").write_text(text)
    argv = [programs.httpd, "-t", "-f", folder / "httpd.conf"]
    return subprocess.run(argv, capture_output=True).returncode == 0


@pytest.mark.skipif(not Programs().httpd, reason="no httpd with mod_dav_svn")
@pytest.mark.parametrize("name", [n for n in FOLDERS if (SERVERS / n / "httpd.conf").exists()])
def test_httpd_accepts_the_directives_of_an_answer_where_it_puts_them(tmp_path, name):
    settings = {"config": {name: server_settings(CONFIG.parent, name)}}
    (question,) = read_questions({"config": {"question": "Which?"}}, settings)
    steps = [step for step in question.actions[name].steps if step.server == "httpd"]
    server, location = (
        "\n".join(step.command for step in steps if step.note.endswith(place))
        for place in (HTTPD_SERVER, HTTPD_LOCATION)
    )
    assert {*f"{server}\n{location}".splitlines()} - {""} == lines_of(name, "httpd.conf")
    assert check_httpd(tmp_path, server, location)
    for directive in server.splitlines():
        assert not check_httpd(tmp_path, "", directive)


@pytest.mark.parametrize("name", ["httpd.conf", "client"])
def test_plan_without_a_server_file_names_it(tmp_path, fast, name):
    file = fast.parent / "default" / name
    shutil.rmtree(file) if file.is_dir() else file.unlink()
    keys = {**read_yaml(DEFAULT), "repository": None, "studies": ["fsfs-san-2014"]}
    with pytest.raises(UserError, match=f"{file}: no such file"):
        Project(keys, tmp_path, [])
