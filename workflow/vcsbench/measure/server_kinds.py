"""List the kinds of servers by their names in recipes."""

from vcsbench.measure.git_servers import GitDaemon, GitHttpd, GitSshd
from vcsbench.measure.other_servers import FossilServer, HgServe
from vcsbench.measure.server import Httpd, Server, Svnserve
from vcsbench.measure.sshd import Sshd

SERVER_KINDS: dict[str, type[Server]] = {
    "svnserve": Svnserve,
    "httpd": Httpd,
    "sshd": Sshd,
    "git-daemon": GitDaemon,
    "git-httpd": GitHttpd,
    "git-sshd": GitSshd,
    "hg-serve": HgServe,
    "fossil-server": FossilServer,
}
