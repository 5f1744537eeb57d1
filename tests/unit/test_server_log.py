"""The log of a server: its formats, the weights that it gives, and logs of real servers."""

import gzip
import os
import shutil
import subprocess
import time
from contextlib import contextmanager

import pytest

from project import CONFIG, DEFAULT, ROOT, free_port, is_listening, needs, wait_for
from unit.study_grid import merge
from vcsbench.config.study import Command, Study
from vcsbench.config.study_reader import load_study
from vcsbench.config.validation import read_yaml
from vcsbench.errors import UserError
from vcsbench.plan.recipe import COMMAND_KEYS
from vcsbench.programs import Programs
from vcsbench.run.project import Project
from vcsbench.sources.server_log import ServerLog, check_measured, read_server_log

DEPLOYED = "deployed-server"
HTTPD = "[28/Nov/2026:22:30:10 +0000] "
SVNSERVE = "4711 2026-11-28T22:30:10.000000Z 10.0.0.1 "


def counts(tmp_path, *lines):
    path = tmp_path / "svn.log"
    path.write_text("".join(f"{line}\n" for line in lines))
    # Another log may have been read from this path.
    read_server_log.cache_clear()
    log = read_server_log(path)
    return log.commands, log.unknown


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (f"{HTTPD}- checkout-or-export /trunk r1 depth=infinity", "checkout-or-export"),
        (f"{HTTPD}jane log (/trunk /a%20log) r9:1 limit=3", "log"),
        # Clients since 1.8 ask for an update in this way.
        (f"{HTTPD}jane status / r5", "update"),
        (f"{SVNSERVE}jane repo status / r5", "status"),
        (f"{SVNSERVE}- repo switch /trunk /br@3", "update"),
        (f"{SVNSERVE}- repo list / r5 depth=infinity <ANY>", "list"),
        (f"{SVNSERVE}- repo get-dir /d r5 text", "list"),
        (f"{SVNSERVE}- repo commit r5", "commit"),
        (f"{SVNSERVE}log update get-file-revs /log r0:5", "blame"),
        (f'10.0.0.1 - jane {HTTPD}"REPORT /r/!svn/me HTTP/1.1" 200 9 "update / r5"', "update"),
        (f'10.0.0.1 - - {HTTPD}"MERGE /r HTTP/1.1" 200 41 commit r7', "commit"),
        (f"jane log (/trunk) r9:1 {HTTPD}", "log"),
        (f'10.0.0.1 "update / r5" {HTTPD}"REPORT /r/!svn/me HTTP/1.1" 200 9', "update"),
    ],
)
def test_line_counts_its_command(tmp_path, line, name):
    assert counts(tmp_path, line) == ({name: 1}, 0)


@pytest.mark.parametrize(
    "line",
    [
        f"{SVNSERVE}- repo get-latest-rev",
        f"{SVNSERVE}- repo open 2 cap=(edit-pipeline) / SVN/1.14.2 -",
        f"{SVNSERVE}- repo get-locations /br@3 (2)",
        f"{SVNSERVE}- repo ERR - 0 170001 Authorization failed",
        f'10.0.0.1 - - {HTTPD}"GET /log HTTP/1.1" 200 41 "-" "my log (x)"',
        "log (/trunk) r9:1",
        "",
    ],
)
def test_line_without_command_is_not_counted(tmp_path, line):
    assert counts(tmp_path, line, f"{HTTPD}- commit r5") == ({"commit": 1}, 0)


def test_lines_with_unknown_actions_are_counted(tmp_path):
    lines = [f"{HTTPD}jane frobnicate /a r5", f"{SVNSERVE}- repo defrag (/a) r5"] * 2
    assert counts(tmp_path, *lines, f"{HTTPD}- commit r5") == ({"commit": 1}, 4)


def test_name_of_a_user_in_the_place_of_an_action_is_not_printed(tmp_path):
    # An unquoted format of the user's own, without env=SVN-ACTION.
    line = f"{HTTPD}10.0.0.1 jane /svn/r/!svn/me 200"
    commands, unknown = counts(tmp_path, line, f"{HTTPD}- commit r5")
    assert (commands, unknown) == ({"commit": 1}, 1)
    log = read_server_log(tmp_path / "svn.log")
    sentences = log.sentences(study(commit="commit"), ["commit"])
    assert sentences[-1] == "1 line has an action that vcsbench does not know."
    assert "jane" not in " ".join(sentences)


def test_log_may_be_compressed_and_have_long_lines(tmp_path):
    long_path = "/x" * 100_000
    lines = [f"{HTTPD}- log ({long_path}) r9:1", f"{HTTPD}- commit r5"]
    path = tmp_path / "svn.log.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    assert read_server_log(path).commands == {"log": 1, "commit": 1}


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: None, "no such file"),
        (lambda path: path.mkdir(), "not a regular file"),
        (os.mkfifo, "not a regular file"),
        (lambda path: path.touch(), "is no log of"),
        (lambda path: path.write_bytes(os.urandom(4096)), "is no log of"),
        (lambda path: path.write_bytes(gzip.compress(b"x" * 99)[:-9]), "cannot be read"),
        (lambda path: path.write_text(f"{HTTPD}- get-locations /a@1 (2)\n"), "has no command"),
        (lambda path: path.symlink_to("/proc/kmsg"), "is no log of"),
        (lambda path: path.symlink_to(path.name), "cannot be read"),
    ],
)
def test_file_that_is_no_log_is_refused(tmp_path, make, reason):
    path = tmp_path / "log"
    make(path)
    with pytest.raises(UserError) as caught:
        read_server_log(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ") and reason in text and "\n" not in text


def study(**logged_as):
    """Return a study whose commands stand for some in a log."""
    commands = {
        name: Command(argv="x", work="stdout", logged_as=logged)
        for name, logged in logged_as.items()
    }
    return Study.model_construct(name="s", axes={"what": "commands"}, commands=commands)


def test_shares_are_weights_of_measured_commands():
    log = ServerLog("svn.log", {"log": 30, "checkout-or-export": 10, "blame": 5}, 2)
    names = {"log": "log", "checkout": "checkout-or-export", "export": "checkout-or-export"}
    measured = study(**names, commit="commit")
    every = list(measured.commands)
    shares = {share["name"]: share["weight"] for share in log.shares(measured, every)}
    assert shares == {"log": 75, "checkout": 12.5, "export": 12.5}
    assert log.shares(measured, every)[0]["where"] == {"what": "log"}
    assert log.sentences(measured, every) == [
        "svn.log has 45 commands: log 66.7 %, checkout or export 22.2 %, blame 11.1 %.",
        "The grid of this study does not measure blame.",
        "Checkout and export have equal weights: the log does not tell them apart.",
        "2 lines have an action that vcsbench does not know.",
    ]
    other = study(commit="commit", dump=None)
    assert log.shares(other, ["commit", "dump"]) == []
    check_measured(log, [(other, ["commit"]), (measured, every)])
    with pytest.raises(UserError, match=r"^svn\.log: .*blame, .* and log.*logged_as"):
        check_measured(log, [(other, ["commit"])])


def test_command_that_the_grid_lacks_takes_no_weight():
    log = ServerLog("svn.log", {"log": 30, "checkout-or-export": 10}, 0)
    names = {"log": "log", "checkout": "checkout-or-export", "export": "checkout-or-export"}
    measured, grid = study(**names, commit="commit"), ["log", "export"]
    shares = {share["name"]: share["weight"] for share in log.shares(measured, grid)}
    assert shares == {"log": 75, "export": 25}
    (sentence,) = log.sentences(measured, grid)
    assert sentence.endswith(" log 75 %, checkout or export 25 %.")
    assert log.sentences(measured, ["commit"])[-1].endswith("so it has no weights.")
    with pytest.raises(UserError, match="no grid of this session"):
        check_measured(log, [(measured, ["commit"])])


@needs("svn", "svnserve")
def test_mix_of_a_log_comes_back_for_the_commands_of_the_default_grid(tmp_path):
    path = tmp_path / "svn.log"

    def project_of(*actions):
        path.write_text("".join(f"{HTTPD}- {action}\n" for action in actions))
        read_server_log.cache_clear()
        keys = {"studies": [DEPLOYED], "server_log": str(path)}
        return Project(merge(read_yaml(DEFAULT), keys), ROOT, [DEFAULT])

    # The grid has an export, and no checkout.
    project = project_of("log (/trunk) r9:1", "checkout-or-export /trunk r1")
    project.check_server_log()
    weights = {part["name"]: part["weight"] for part in project.params_of(DEPLOYED).workload}
    assert weights == {"log": 50, "export": 50}
    # It has no `ls -R`.
    with pytest.raises(UserError, match="it has list, and no grid of this session"):
        project_of("list / r5 depth=infinity").check_server_log()


@pytest.mark.parametrize("name", ["own-repository", "fsfs-san-2014", "fsfs-ssd-2014"])
def test_shares_of_shipped_study_are_those_of_log_and_export(name):
    shipped = load_study(CONFIG / "studies" / f"{name}.yaml")
    log = ServerLog("svn.log", {"log": 30, "checkout-or-export": 10, "update": 60}, 0)
    every = list(shipped.commands)
    check_measured(log, [(shipped, every)])
    shares = {share["name"]: share["weight"] for share in log.shares(shipped, every)}
    assert shares == {"log": 75, "export": 25}


def test_recipe_has_no_name_of_a_log():
    # With another name, the weights change, and nothing is measured again.
    assert "logged_as" not in COMMAND_KEYS


# Logs of real servers. The numbers of commands are a known mix.

# The commit is first: a checkout of revision 0 is logged as an update.
MIX = {"commit": 1, "log": 4, "checkout": 2, "export": 3, "update": 5, "list": 2}
COMMANDS = {
    "log": "svn log -v URL",
    "checkout": "svn checkout URL FOLDER/wc-NUMBER",
    "export": "svn export URL FOLDER/export-NUMBER",
    "update": "svn update FOLDER/wc-0",
    "list": "svn list -R URL",
    "commit": "svnmucc put FOLDER/file URL/file-NUMBER -m change",
}


@contextmanager
def running(argv, port):
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            wait_for(lambda: is_listening(port))
            yield
        finally:
            server.terminate()


def send_mix(url, folder):
    """Send the mix of commands, after commands of the same kinds that prepare the repository."""
    (folder / "file").write_text("text\n")
    for name, number in MIX.items():
        for n in range(number):
            words = COMMANDS[name].replace("NUMBER", str(n)).replace("FOLDER", str(folder))
            argv = words.replace("URL", url).split()
            subprocess.run([*argv, "--non-interactive"], check=True, stdout=subprocess.DEVNULL)


def check_mix(path):
    log = read_server_log(path)
    expected = {name: MIX[name] for name in ("log", "update", "list", "commit")}
    expected["checkout-or-export"] = MIX["checkout"] + MIX["export"]
    assert (log.commands, log.unknown) == (expected, 0)


@needs("svn", "svnserve", "svnmucc")
def test_log_of_real_svnserve_gives_the_mix_back(tmp_path):
    repository = tmp_path / "root" / "r"
    repository.parent.mkdir()
    subprocess.run(["svnadmin", "create", repository], check=True)
    (repository / "conf" / "svnserve.conf").write_text("[general]\nanon-access = write\n")
    port, log = free_port(), tmp_path / "svnserve.log"
    argv = ["svnserve", "--daemon", "--foreground", "--root", repository.parent]
    argv += ["--listen-host", "127.0.0.1", "--listen-port", str(port), "--log-file", log]
    with running(argv, port):
        send_mix(f"svn://127.0.0.1:{port}/r", tmp_path)
    check_mix(log)


CONFIGURATION = """
ServerRoot "{folder}"
ServerName localhost
Listen 127.0.0.1:{port}
PidFile "{folder}/pid"
ErrorLog "{folder}/errors"
DefaultRuntimeDir "{folder}"
{modules}
CustomLog "{folder}/svn.log" "%t %u %{{SVN-ACTION}}e" env=SVN-ACTION
CustomLog "{folder}/access.log" "%h %l %u %t \\"%r\\" %>s %b \\"%{{SVN-ACTION}}e\\""
<Location />
    DAV svn
    SVNParentPath "{folder}/root"
</Location>
"""


@needs("svn", "svnmucc")
@pytest.mark.skipif(not Programs().httpd, reason="no httpd with mod_dav_svn")
def test_logs_of_real_httpd_give_the_mix_back(folder):
    (folder / "root").mkdir()
    subprocess.run(["svnadmin", "create", folder / "root" / "r"], check=True)
    names = ["mpm_event", "unixd", "authz_core", "dav", "dav_svn", "log_config"]
    found = {name: os.path.join(Programs().httpd_modules, f"mod_{name}.so") for name in names}
    modules = [f"LoadModule {n}_module {path}" for n, path in found.items() if os.path.exists(path)]
    if os.geteuid() == 0:
        modules += ["User nobody", "Group nogroup"]
        for path in [folder / "root", *(folder / "root").rglob("*")]:
            shutil.chown(path, "nobody")
    port = free_port()
    file = folder / "httpd.conf"
    file.write_text(CONFIGURATION.format(folder=folder, port=port, modules="\n".join(modules)))
    with running([Programs().httpd, "-DFOREGROUND", "-f", file], port):
        send_mix(f"http://127.0.0.1:{port}/r", folder)
    for name in ("svn.log", "access.log"):
        check_mix(folder / name)


def test_large_log_is_read_in_seconds(tmp_path):
    path = tmp_path / "svn.log"
    lines = [f"{HTTPD}jane log (/trunk/some/folder/{n}) r9:1 revprops=all" for n in range(1000)]
    path.write_text("\n".join(lines * 200) + "\n")
    began = time.process_time()
    assert read_server_log(path).commands == {"log": 200_000}
    # It takes 0.3 s; a busy machine is slower.
    assert time.process_time() - began < 10
