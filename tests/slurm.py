"""A Slurm with two nodes on this machine. Daemons and sockets are private; only CONFIGURATION is not."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from project import HANGING_S, free_port, wait_for

# A job's step drops SLURM_CONF, so its programs read this one.
CONFIGURATION = Path("/etc/slurm/slurm.conf")
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol")
NODES = ("n1", "n2")
STOPS_IN_S = 120
TEXT = """\
ClusterName=vcsbench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthInfo=socket={folder}/munge/socket
SlurmUser=root
SlurmdUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,bf_interval=1,defer_batch
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
ReturnToService=2
SlurmctldTimeout=10
SlurmdTimeout=10
KillWait=2
MinJobAge=600
MailProg=/bin/true
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs={cores} Feature=bench
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs={cores} Feature=bench
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""


def why_not() -> str:
    """Return why no Slurm can be started here, or ""."""
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        return f"not installed: {', '.join(missing)}"
    if os.geteuid() != 0:
        return "only root can start Slurm's daemons"
    if CONFIGURATION.exists():
        return f"this machine has a Slurm of its own ({CONFIGURATION})"
    return ""


class Slurm:
    """A running Slurm with its files in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start all daemons, and wait until both nodes are idle."""
        munge = self.folder / "munge"
        munge.mkdir(mode=0o755)
        key = munge / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        for name in ("state", *(f"spool.{node}" for node in NODES)):
            (self.folder / name).mkdir()
        ports = [free_port() for _ in range(3)]
        cores = len(os.sched_getaffinity(0))
        text = TEXT.format(host=socket.gethostname(), folder=self.folder, ports=ports, cores=cores)
        CONFIGURATION.parent.mkdir(exist_ok=True)
        CONFIGURATION.write_text(text)
        files = [f"--{part}-file={munge}/{part}" for part in ("key", "log", "pid", "seed")]
        self._run("munged", "--foreground", "--force", f"--socket={munge}/socket", *files)
        self._run("slurmctld", "-D")
        for node in NODES:
            self.start_node(node)
        for node in NODES:
            self.wait_for(node, "idle")

    def _run(self, *command: str, name: str = "") -> None:
        log = (self.folder / f"{name or command[0]}.out").open("wb")
        self.daemons[name or command[0]] = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )

    def start_node(self, node: str) -> None:
        self._run("slurmd", "-D", "-N", node, name=node)

    def lose(self, node: str) -> None:
        """Kill the daemon of a node and all processes of its job, as a power failure does."""
        job = self.ask("squeue", "-h", "-w", node, "-o", "%i")
        self.daemons[node].kill()
        self.daemons[node].wait()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "environ").read_bytes().split(b"\0")
                if job and f"SLURM_JOB_ID={job}".encode() in words:
                    os.kill(int(process.name), 9)
            except OSError:
                continue
        self.ask("scontrol", "update", f"nodename={node}", "state=down", "reason=lost")

    def ask(self, *command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, timeout=HANGING_S)
        return (done.stdout + done.stderr).strip()

    def wait_for(self, node: str, state: str) -> None:
        wait_for(lambda: self.ask("sinfo", "-h", "-n", node, "-o", "%T") == state)

    def stop(self) -> None:
        self.ask("scancel", "--signal=KILL", "-u", "root")
        until = time.monotonic() + STOPS_IN_S
        while self.ask("squeue", "-h") and time.monotonic() < until:
            self.ask("scancel", "-u", "root")
            time.sleep(0.5)
        for daemon in reversed(self.daemons.values()):
            daemon.terminate()
        for daemon in self.daemons.values():
            try:
                daemon.wait(60)
            except subprocess.TimeoutExpired:
                daemon.kill()
        CONFIGURATION.unlink()


@contextmanager
def started(folder: Path) -> Iterator[Slurm]:
    """Run a Slurm with its files in an empty folder."""
    slurm = Slurm(folder)
    try:
        slurm.start()
        yield slurm
    finally:
        slurm.stop()
