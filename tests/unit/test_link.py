"""The line between client and server: what was set is measured, and nothing is left of it."""

import json
import os
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from project import CONFIG, HANGING_S, ROOT, make_served, needs, run_python, start_python, wait_for
from vcsbench import isolation
from vcsbench.axes.network_axis import AXIS
from vcsbench.config.study_reader import load_study
from vcsbench.deployment import link, link_check
from vcsbench.deployment.link import LINKS, Shaper
from vcsbench.deployment.link_check import LinkMeasurement
from vcsbench.programs import Programs

DEFAULT = CONFIG / "servers" / "default"
needs_pair = pytest.mark.skipif(
    bool(link.why_no_link(LINKS["namespace"])), reason=link.why_no_link(LINKS["namespace"])
)
TRIALS = {Shaper.NETEM: link.try_netem, Shaper.RELAY: link.try_relay}


def skip_without(shaper):
    if shaper in TRIALS and not isolation.is_allowed(TRIALS[shaper]):
        pytest.skip(f"this machine has no {shaper}")


# The arguments are the numbers of a line, and its shaper. The lock keeps other measurements away.
OPENED = """
import json, os, sys
from contextlib import ExitStack
from vcsbench import machine_lock
from vcsbench.deployment.link import Link, LinkedNetworks, Shaper
networks = LinkedNetworks(Link(*map(float, sys.argv[1:4])), Shaper(sys.argv[4]))
stack = ExitStack()
stack.enter_context(machine_lock.machine_lock())
networks.open(stack)
"""
MEASURED = f"""{OPENED}
measured = networks.measure()
print(json.dumps([measured.round_trip_ms, measured.to_server_mbit, measured.to_client_mbit]))
stack.close()
"""


def run_with(program, shaper, *numbers):
    """Run a program with a line, and return its JSON output."""
    skip_without(shaper)
    done = run_python(program, *map(str, numbers), shaper)
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


@needs_pair
@pytest.mark.parametrize("shaper", TRIALS)
@pytest.mark.parametrize("name", ["office", "line", "far"])
def test_line_has_the_delay_and_rate_that_were_set(name, shaper):
    delay_ms, rate_mbit, loss_pct = LINKS[name]
    round_trip_ms, *rates_mbit = run_with(MEASURED, shaper, delay_ms, rate_mbit, loss_pct)
    assert round_trip_ms == pytest.approx(delay_ms, rel=0.05)
    assert rates_mbit == pytest.approx([rate_mbit, rate_mbit], rel=0.05)


@needs_pair
def test_namespace_has_no_delay_and_no_limit():
    round_trip_ms, *rates_mbit = run_with(MEASURED, Shaper.NONE, 0, 0, 0)
    # Less than half of the least delay, and more than the rate of any line that is not the office's.
    assert round_trip_ms < 0.5
    assert min(rates_mbit) > 100


LOSSES = f"""{OPENED}
counts = []
with networks._ends() as (client, server):
    for sender, receiver in ((client, server), (server, client)):
        receiver.settimeout(0.1)
        arrived = 0
        for number in range(20):
            for _ in range(200):
                sender.send(b"packet")
            try:
                for _ in range(200):
                    receiver.recv(100)
                    arrived += 1
            except TimeoutError:
                pass
        counts.append(4000 - arrived)
print(json.dumps(counts))
"""


@needs_pair
@pytest.mark.parametrize("shaper", TRIALS)
def test_line_loses_packets_in_both_directions(shaper):
    # 2 % of 4,000 are 80, with a standard deviation of 9.
    assert run_with(LOSSES, shaper, 0.2, 0, 2) == pytest.approx([80, 80], abs=45)


SERVED = f"""{OPENED}
import subprocess
from pathlib import Path
from vcsbench import process_facts, processes
from vcsbench.deployment.link import SERVER_HOST
from vcsbench.measure.server_kinds import SERVER_KINDS
folder, default = Path(sys.argv[6]), Path(sys.argv[7])
server = SERVER_KINDS[sys.argv[5]](folder / "root", default, folder / "run")
server.host, server.in_network = SERVER_HOST, networks.in_server_network
server.start()
scheme = {{"svnserve": "svn", "httpd": "http"}}[server.kind]
url = f"{{scheme}}://{{SERVER_HOST}}:{{server.port}}/one"
argv = ["svn", "info", "--show-item", "revision", url, "--non-interactive"]
revision = subprocess.run(argv, capture_output=True, text=True).stdout
with networks.in_server_network():
    devices = subprocess.run(["ip", "-j", "link"], capture_output=True, text=True).stdout
print(json.dumps({{
    "pids": process_facts.family(os.getpid()),
    "server": server.pid,
    "uid": os.stat(f"/proc/{{server.pid}}").st_uid,
    "argv": server.argv == process_facts.command_line(server.pid),
    "networks": [os.readlink(f"/proc/{{pid}}/ns/net") for pid in (os.getpid(), server.pid)],
    "interfaces": [device["ifname"] for device in json.loads(devices)],
    "port": server.port,
    "revision": revision,
}}), flush=True)
sys.stdin.read()
server.close()
stack.close()
"""


def processes_in(networks):
    """Return the processes in some networks, by the links of /proc/PID/ns/net."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            if os.readlink(path) in networks:
                pids.append(path.parts[2])
        except OSError:
            continue  # it has ended
    return pids


def seen_outside():
    """Return the interfaces, named networks and queues of this process's network."""
    seen = [subprocess.run(argv, capture_output=True, text=True).stdout for argv in (
        ["ip", "-brief", "link"], ["ip", "netns", "list"], ["tc", "qdisc", "show"],
    )]  # fmt: skip
    return [*seen, sorted(os.listdir("/run/netns")) if os.path.isdir("/run/netns") else []]


@needs("svn", "svnadmin", "svnserve")
@needs_pair
@pytest.mark.parametrize("ending", ["end of the cell", signal.SIGKILL])
@pytest.mark.parametrize("shaper", [Shaper.NONE, *TRIALS])
@pytest.mark.parametrize("kind", ["svnserve", "httpd"])
def test_server_answers_over_the_line_and_nothing_is_left(folder, kind, shaper, ending):
    if kind == "httpd" and not Programs().httpd:
        pytest.skip("no httpd with mod_dav_svn")
    skip_without(shaper)
    make_served(folder)
    before = seen_outside()
    numbers = ["0", "0", "0"] if shaper == Shaper.NONE else ["1", "100", "0"]
    cell = start_python(SERVED, *numbers, shaper, kind, folder, DEFAULT)
    try:
        line = cell.stdout.readline()
        assert line, cell.stderr.read()
        found = json.loads(line)
        assert found["revision"] == "0\n" and found["argv"]
        assert len(set(found["networks"])) == 2
        assert os.readlink("/proc/self/ns/net") not in found["networks"]
        assert found["interfaces"] == ["lo", "line"]
        assert os.geteuid() or found["uid"]
        during = seen_outside()
        if ending == signal.SIGKILL:
            cell.kill()
        cell.communicate(timeout=HANGING_S)
    finally:
        cell.kill()
    wait_for(lambda: not processes_in(found["networks"]))
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in found["pids"]))
    assert before == during == seen_outside()


@pytest.mark.parametrize(
    ("measured", "is_as_set"),
    [
        ((20.9, 104.0, 96.0), True),
        ((21.1, 100.0, 100.0), False),
        ((18.9, 100.0, 100.0), False),
        ((20.0, 106.0, 100.0), False),
        ((20.0, 100.0, 94.0), False),
    ],
)
def test_measured_line_may_differ_by_five_percent(measured, is_as_set):
    assert LinkMeasurement(*measured).is_as_set(20, 100) is is_as_set
    assert LinkMeasurement(*measured).is_as_set(0, 0)


@pytest.mark.parametrize(
    ("round_trips_ms", "measured_ms"),
    [
        ([20.3], 20.3),
        ([26.0, 20.9], 20.9),
        # The closest one, if none is as set.
        ([26.0, 23.9, 22.0, 23.0, 40.0], 22.0),
        ([0.1] * link.ATTEMPTS, 0.1),
    ],
)
def test_line_is_measured_again_after_the_runs_without_being_set(
    monkeypatch, round_trips_ms, measured_ms
):
    """A line that lost its delay must not get it back before it is judged."""
    networks = link.LinkedNetworks(LINKS["line"], Shaper.NETEM)
    left = iter(round_trips_ms)
    monkeypatch.setattr(networks, "_measure_once", lambda: LinkMeasurement(next(left), 100, 100))
    monkeypatch.setattr(networks, "_shape_exactly", lambda: pytest.fail("the line was set"))
    measured = networks.measure_again()
    assert measured == (measured_ms, 100, 100) and list(left) == []
    # A wider tolerance than before the runs leaves them out.
    assert LinkMeasurement(23.9, 81, 119).is_as_set(20, 100, link_check.TOLERANCE_AFTER_RUNS)


class FakeEnd:
    """Both ends of a line, on which a packet arrives each millisecond."""

    def __init__(self):
        self.options = []
        self.packets = []
        self.arrived = 0

    def setsockopt(self, level, option, value):
        self.options.append((level, option))

    def settimeout(self, seconds):
        pass

    def send(self, data):
        size = link_check.DATAGRAM_BYTES
        self.packets += [data[start : start + size] for start in range(0, len(data), size)]

    def recvmsg(self, size, ancillary_size):
        self.arrived += 1
        at = link_check.TIMESPEC.pack(0, self.arrived * 1_000_000)
        return self.packets.pop(0), [(0, 0, at)], 0, None


@pytest.mark.parametrize(("sent_at_once", "is_segmented"), [(1, False), (link_check.MERGED, True)])
def test_rate_is_measured_with_segments_only_if_packets_are_merged(sent_at_once, is_segmented):
    end = FakeEnd()
    rate_mbit = link_check.measure_rate_mbit(end, end, 1, sent_at_once)
    assert rate_mbit == pytest.approx(link_check.FRAME_BYTES * 8 / 1000)
    option = (link_check.SOL_UDP, link_check.UDP_SEGMENT)
    assert (option in end.options) is is_segmented


def environment_with(monkeypatch, *allowed):
    """Return an environment on a machine that allows some trials only."""
    monkeypatch.setattr(isolation, "is_allowed", lambda act: act in allowed)
    return SimpleNamespace(root=ROOT)


def why_skipped(value, env, **draft):
    return AXIS.why_not(value, {**AXIS.recipe_keys(value, env), **draft}, env)


def test_line_of_a_cell_is_in_its_recipe(monkeypatch):
    env = environment_with(monkeypatch, link.try_pair, link.try_netem, link.try_relay)
    for value in ("", "loopback"):
        assert AXIS.recipe_keys(value, env) == {}
    expected = {"delay_ms": 80, "rate_mbit": 20, "loss_pct": 0.1, "shaper": "netem", "relay": ""}
    assert AXIS.recipe_keys("far", env) == {"link": expected}
    expected = {"delay_ms": 0, "rate_mbit": 0, "loss_pct": 0, "shaper": "", "relay": ""}
    assert AXIS.recipe_keys("namespace", env) == {"link": expected}


def test_relay_takes_the_place_of_a_missing_netem(monkeypatch):
    env = environment_with(monkeypatch, link.try_pair, link.try_relay)
    part = AXIS.recipe_keys("line", env)["link"]
    assert part["shaper"] == "relay" and len(part["relay"]) == 16
    assert why_skipped("line", env) == ""


def test_cell_with_a_line_that_cannot_be_made_is_skipped_with_the_reason(monkeypatch):
    env = environment_with(monkeypatch, link.try_pair)
    assert "netem" in why_skipped("line", env) and "/dev/net/tun" in why_skipped("line", env)
    assert why_skipped("namespace", env) == why_skipped("loopback", env) == ""
    assert "in a guest" in why_skipped("line", env, filesystem={"guest": "ext4"})
    env = environment_with(monkeypatch)
    assert "root may" in why_skipped("namespace", env) and "root may" in why_skipped("far", env)
    assert why_skipped("loopback", env) == ""
    monkeypatch.setattr(link.shutil, "which", lambda name: "" if name == "tc" else f"/sbin/{name}")
    assert why_skipped("far", env).startswith("tc is not installed")


@pytest.mark.parametrize("name", ["systems", "deployed-server"])
def test_table_compares_loopback_with_each_other_network_of_its_study(name):
    study = load_study(CONFIG / "studies" / f"{name}.yaml")
    compare = study.tables["loopback-vs-network"]["compare"]
    compared = [compare["baseline"], *compare["candidates"]]
    assert compared == study.axes["network"] == ["loopback", *LINKS]


def test_line_applies_to_cells_with_a_server():
    applies = [AXIS.applies({"access": access}) for access in ("svn", "http", "file", "")]
    assert applies == [True, True, False, False]
    assert not AXIS.applies({})
    assert AXIS.why_invalid("moon").startswith("is none of loopback, ")
    assert not any(map(AXIS.why_invalid, ("loopback", *LINKS)))
