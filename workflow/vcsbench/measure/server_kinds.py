"""List the kinds of servers by their names in recipes."""

from vcsbench.measure.git_servers import GitDaemon, GitHttpd, GitSshd
from vcsbench.measure.server import Httpd, Server, Svnserve
from vcsbench.measure.sshd import Sshd

SERVER_KINDS: dict[str, type[Server]] = {
    "svnserve": Svnserve,
    "httpd": Httpd,
    "sshd": Sshd,
    "git-daemon": GitDaemon,
    "git-httpd": GitHttpd,
    "git-sshd": GitSshd,
}
