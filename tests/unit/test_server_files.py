"""Server configurations: `default` has the missing files."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from project import CONFIG
from vcsbench.advice.questions import read_questions
from vcsbench.advice.server_actions import HTTPD_LOCATION, HTTPD_SERVER
from vcsbench.axes.server_axes import server_settings
from vcsbench.config.validation import read_yaml
from vcsbench.errors import UserError
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
        ("default/svnserve.args", {("default", access) for access in SVNSERVE}),
        ("fast/svnserve.args", {("fast", access) for access in SVNSERVE}),
        (
            "default/httpd.conf",
            {(f, a) for f in ("default", "slow", "threaded") for a in ("http", "https")},
        ),
        ("default/client/servers", {(f, a) for f in FOLDERS for a in NAMES if a}),
    ],
)
def test_digest_after_an_edit_differs_for_the_users_of_the_file(servers, file, stale):
    before = digests(servers)
    with (servers / file).open("a") as edited:
        edited.write("# edited\n")
    after = digests(servers)
    assert {key for key, digest in after.items() if digest != before[key]} == stale


def test_server_files_of_a_folder_without_files_are_the_default_ones(servers):
    (servers / "mine" / "client").mkdir(parents=True)
    names = ["svnserve.args", "client"]
    found = server_files(servers / "mine", names)
    assert found == server_files(servers / "default", names)
    assert set(found) == {"svnserve.args", "client/config", "client/servers"}
    (servers / "mine" / "client" / "config").write_text("[helpers]\n")
    (servers / "mine" / "client" / "more").write_text("")
    found = server_files(servers / "mine", names)
    assert found["client/config"] == servers / "mine" / "client" / "config"
    assert found["client/servers"] == servers / "default" / "client" / "servers"
    assert found["client/more"] == servers / "mine" / "client" / "more"
    assert server_file(servers / "mine", "svnserve.args") == servers / "default" / "svnserve.args"


@pytest.mark.parametrize("file", ["svnserve.args", "client"])
@pytest.mark.parametrize("to", ["pipe", "/nonexistent", "/dev/zero"])
def test_digest_file_of_another_kind_is_refused_and_not_replaced(servers, file, to):
    path = servers / "mine" / file
    path.parent.mkdir()
    os.mkfifo(path) if to == "pipe" else path.symlink_to(to)
    with pytest.raises(UserError, match=f"^{path}: .*regular file"):
        server_files_digest(servers / "mine", ["svnserve.args", "client"])


@pytest.mark.parametrize("file", ["svnserve.args", "svnadmin.args", "load.args", "link"])
def test_plan_with_an_unusable_server_file_is_refused(tmp_path, file):
    shutil.copytree(SERVERS.parent, tmp_path / "config")
    broken = tmp_path / "config/servers/fast" / file.replace("link", "svnserve.args")
    broken.unlink(missing_ok=True)
    if file == "link":
        broken.symlink_to("/nonexistent")
    else:
        broken.write_text("--threads\n--log-file '/var/log/x\n")
    with pytest.raises(UserError, match=f"^{broken}: .*(No closing|regular file)"):
        Project(read_yaml(SERVERS.parent / "config.yaml"), tmp_path, [])


def test_plan_with_a_misspelt_server_file_is_refused(tmp_path):
    raw = read_yaml(SERVERS.parent / "config.yaml")
    for name in ("README.md", "httpd.conf~", ".svnserve.args.swp", "httpd.cnf"):
        root = tmp_path / name
        shutil.copytree(SERVERS.parent, root / "config")
        file = root / "config/servers/fast" / name
        file.touch()
        if name != "httpd.cnf":
            Project(raw, root, [])
            continue
        with pytest.raises(UserError, match=f"^{file}: no program reads .* Use one of httpd.conf,"):
            Project(raw, root, [])


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
def test_plan_without_a_server_file_names_it(tmp_path, name):
    shutil.copytree(CONFIG, tmp_path / "config")
    file = tmp_path / "config" / "servers" / "default" / name
    shutil.rmtree(file) if file.is_dir() else file.unlink()
    path = tmp_path / "config" / "config.yaml"
    keys = {**read_yaml(path), "repository": None}
    keys["studies"] = ["fsfs-san-2014"]
    with pytest.raises(UserError, match=f"servers/default/{name}: no such file"):
        Project(keys, tmp_path, [path])
