"""Define the environment of all programs that vcsbench runs: clients, servers, loaders and helpers.

Only a few variables of the caller pass. All others stay out, because they change what a program prints
(LANGUAGE), which work it does (SVN_*, GIT_*), or how long that takes (MALLOC_*, LD_PRELOAD, proxies).
vcsbench's own processes (Snakemake and its jobs) and the tools of a cluster have the caller's environment.
"""

import os
from collections.abc import Mapping

# The mark of a run's processes. The run ends the processes that have it.
RUN_ROOT = "VCSBENCH_RUN_ROOT"

# A server gets only these, because it runs as another user, who must not reach the caller's files.
PASSED_TO_SERVERS = (
    # Programs are found there.
    "PATH",
    # Programs that are not installed in the system's folders may need it to start. The evidence has a digest
    # of all libraries that are loaded. A build with a prefix replaces it (programs.Programs).
    "LD_LIBRARY_PATH",
    RUN_ROOT,
)
PASSED = (
    *PASSED_TO_SERVERS,
    # Subversion's stored credentials and ssh's keys, for sources and servers on other machines. The
    # configuration of svn there is not used: clients have a --config-dir.
    "HOME",
    # vcsbench makes its temporary folders there, so programs use the same file system.
    "TMPDIR",
    # The keys of ssh-agent and the tickets of Kerberos, for sources and servers on other machines.
    "SSH_AUTH_SOCK",
    "KRB5CCNAME",
)

# Messages are in English, and paths are UTF-8. LANGUAGE would precede LC_ALL up to glibc 2.38.
LOCALE = {"LC_ALL": "C.UTF-8"}
# git's own configuration files are not read, and it asks nobody. A file whose name is a pattern of git's,
# such as `[a]`, stands for itself.
GIT_VARIABLES = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LITERAL_PATHSPECS": "1",
}
# git would repack in the background, and change a repository under the next run. It would also read the
# attributes and ignored names of the user (~/.config/git), also without the user's configuration.
QUIET_GIT = {
    "gc.auto": "0",
    "maintenance.auto": "false",
    "receive.autogc": "false",
    "core.attributesFile": os.devnull,
    "core.excludesFile": os.devnull,
}


def git_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return variables with which git has `settings`, and reads no configuration of the machine or a user.

    {"gc.auto": "0"} adds GIT_CONFIG_COUNT=1, GIT_CONFIG_KEY_0=gc.auto and GIT_CONFIG_VALUE_0=0. git passes
    the variables to its own processes, but not to the server's side of a local clone. git before 2.32 ignores
    some of them, and is not measured (git_store.why_git_too_old).
    """
    variables = {
        **GIT_VARIABLES,
        "GIT_CONFIG_COUNT": str(len(settings)),
    }
    for number, (name, value) in enumerate(settings.items()):
        variables[f"GIT_CONFIG_KEY_{number}"] = name
        variables[f"GIT_CONFIG_VALUE_{number}"] = value
    return variables


FIXED = {
    **LOCALE,
    # Otherwise a client sleeps until the next time stamp after it wrote a working copy.
    "SVN_I_LOVE_CORRUPTED_WORKING_COPIES_SO_DISABLE_SLEEP_FOR_TIMESTAMPS": "yes",
    # The user's configuration of git and Mercurial is not measured.
    **git_settings(QUIET_GIT),
    "HGRCPATH": "",
    # Mercurial and Breezy would write files next to their modules.
    "PYTHONDONTWRITEBYTECODE": "1",
}


def program_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a client, a loader or a helper. `more` replaces single variables."""
    variables = {**passed_variables(), **FIXED}
    if more:
        variables.update(more)
    return variables


def server_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a server. `more` replaces single variables."""
    passed = passed_variables()
    variables = {name: value for name, value in passed.items() if name in PASSED_TO_SERVERS}
    variables.update(LOCALE)
    if more:
        variables.update(more)
    return variables


def passed_variables() -> dict[str, str]:
    """Return the variables of the caller that pass."""
    # Without a PATH, each program would search the folders of its own default.
    variables = {"PATH": os.defpath}
    for name in PASSED:
        if name in os.environ:
            variables[name] = os.environ[name]
    return variables
