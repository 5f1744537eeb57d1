"""Give client and server networks of their own, with the delay, rate and loss of a line between them."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from typing import NamedTuple

from vcsbench import isolation, process_facts, processes
from vcsbench.deployment import link_check
from vcsbench.deployment.link_check import LinkMeasurement
from vcsbench.programs import BUILT

# The networks have no other interface than this one and loopback, so any address and name will do. These
# addresses are for examples (RFC 5737).
CLIENT_HOST, SERVER_HOST, PREFIX_BITS = "192.0.2.1", "192.0.2.2", 30
INTERFACE = "line"
# The packets that wait on a line in one direction. More are dropped. The relay has as many (relay.c).
QUEUE_LENGTH = 1000
RELAY = BUILT / "relay"
TUN = "/dev/net/tun"
# The kernel's constants of TUN devices (linux/if_tun.h), and the part of struct ifreq with name and flags.
TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
IFF_TUN, IFF_NO_PI, IFF_VNET_HDR = 0x0001, 0x1000, 0x4000
# Checksums and segments that a TUN device leaves to its program: of TCP, and of UDP since Linux 6.2.
TUN_F_CSUM, TUN_F_TSO4, TUN_F_USO4, TUN_F_USO6 = 0x01, 0x02, 0x20, 0x40
INTERFACE_REQUEST = struct.Struct("16sH22x")
# The kernel itself takes up to this time for a round trip. It is subtracted from the delay that is set.
MAX_CORRECTION_MS = 0.25
ATTEMPTS = 5


class Link(NamedTuple):
    """A line between client and server.

    `delay_ms` is added to a round trip, a half in each direction. `rate_mbit` limits each direction (0: no
    limit), and `loss_pct` of the packets of each direction are lost.
    """

    delay_ms: float
    rate_mbit: float
    loss_pct: float

    @property
    def is_shaped(self) -> bool:
        return self != Link(0, 0, 0)

    @property
    def merges_packets(self) -> bool:
        """Return True if the kernel may handle up to 64 KiB as one packet, as a network card does.

        A line that loses packets would lose all of it at once.
        """
        return not self.loss_pct


LOOPBACK = "loopback"
# The lines by value of the axis `network`. A cell on loopback has none.
LINKS = {
    "namespace": Link(0, 0, 0),
    "office": Link(1, 1000, 0),
    "line": Link(20, 100, 0),
    "far": Link(80, 20, 0.1),
}

# A line for a trial of all that a line can need, which takes no long time.
SHORT_LINK = Link(0.1, 20, 0.1)


class Shaper(StrEnum):
    """The means that delays packets, limits their rate and loses some of them."""

    NONE = ""
    # The kernel's netem, on both ends of a pair of interfaces (veth).
    NETEM = "netem"
    # A program between two TUN devices (workflow/native/relay.c), for kernels without netem.
    RELAY = "relay"


class LinkedNetworks:
    """Two networks with a line between them: the network of this process, for the client, and the server's.

    open() makes both as network namespaces. Nothing has a name outside of this process. When the process
    ends, also by SIGKILL, the kernel removes both networks. `one_way_ms` is the delay that the shaper has in
    each direction: less than half of the delay of the line, because the kernel itself takes some time for
    each packet.
    """

    def __init__(self, link: Link, shaper: Shaper) -> None:
        self.link = link
        self.shaper = shaper
        self.one_way_ms = 0.0
        self._client_network = -1
        self._server_network = -1
        self._devices: list[int] = []
        self._relay: processes.Process | None = None

    def open(self, stack: ExitStack) -> None:
        """Make a network for the client and one for the server, and the line between them.

        This process moves to the client's network for good. Leaving `stack` removes the server's network and
        the line. Call open() before the process starts a thread, because only the calling thread moves. Raise
        UserError or OSError if a right, a program or a part of the kernel is missing.
        """
        self._make_networks(stack)
        if self.shaper == Shaper.RELAY:
            self._make_tun_devices(stack)
        else:
            self._make_interface_pair()
        self._set_up_interface(CLIENT_HOST)
        with self.in_server_network():
            self._set_up_interface(SERVER_HOST)
        # The kernel may drop the first packets of a new pair of interfaces. TUN devices drop none, but carry
        # none before _shape_exactly() starts the relay.
        if self.shaper != Shaper.RELAY:
            with self._ends() as (client, server):
                link_check.wait_for_first_packet(client, server)
        if self.link.is_shaped:
            self._shape_exactly()

    def _make_networks(self, stack: ExitStack) -> None:
        """Make the networks of client and server, and store a descriptor of each, until `stack` is left.

        A network exists as long as a process is in it, or has a descriptor of it. Afterwards, this process is
        in the client's network.
        """
        isolation.unshare_network()
        self._client_network = isolation.open_network()
        stack.callback(os.close, self._client_network)
        # The kernel makes a network only by entering it. So this process enters the server's network, and
        # then returns to the client's.
        try:
            isolation.enter_new_network()
            self._server_network = isolation.open_network()
        finally:
            isolation.enter_network(self._client_network)
        stack.callback(os.close, self._server_network)

    def _make_interface_pair(self) -> None:
        """Make a pair of interfaces (veth) without addresses, like a cable with an end in each network."""
        # The program ip finds the server's network by the path of this process's descriptor.
        server_network = f"/proc/{os.getpid()}/fd/{self._server_network}"
        _run_ip(
            *("link", "add", "name", INTERFACE, "type", "veth"),
            *("peer", "name", INTERFACE, "netns", server_network),
        )

    def _make_tun_devices(self, stack: ExitStack) -> None:
        """Make a TUN device in each network, for kernels that cannot delay packets themselves.

        A TUN device is an interface whose packets a program reads and writes: here the relay (_start_relay),
        which passes packets on to the other device with the delay of the line. A device exists as long as a
        process has it open.
        """
        self._devices.append(self._open_device())
        with self.in_server_network():
            self._devices.append(self._open_device())
        for device in self._devices:
            stack.callback(os.close, device)
        stack.callback(self._end_relay)

    def _open_device(self) -> int:
        """Make a TUN device in this thread's network, and return its descriptor for the relay."""
        device = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
        # IFF_TUN: packets of IP, without Ethernet. IFF_NO_PI: without a number of the protocol.
        # IFF_VNET_HDR: with a header about checksum and segments, which a merged packet needs (see below).
        flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR
        fcntl.ioctl(device, TUNSETIFF, INTERFACE_REQUEST.pack(INTERFACE.encode(), flags))
        if self.link.merges_packets:
            # The kernel may pass up to 64 KiB as one packet without checksum, as it does to a network card.
            features = TUN_F_CSUM | TUN_F_TSO4
            # Before Linux 6.2, the kernel refuses this for packets of UDP (USO).
            try:
                fcntl.ioctl(device, TUNSETOFFLOAD, features | TUN_F_USO4 | TUN_F_USO6)
            except OSError:
                fcntl.ioctl(device, TUNSETOFFLOAD, features)
        return device

    def _set_up_interface(self, host: str) -> None:
        _run_ip("address", "add", f"{host}/{PREFIX_BITS}", "dev", INTERFACE)
        options = ["txqueuelen", str(QUEUE_LENGTH)]
        if not self.link.merges_packets:
            # The kernel then handles each packet by itself.
            options += ["gso_max_segs", "1"]
        _run_ip("link", "set", "dev", INTERFACE, *options, "up")

    def _shape_exactly(self) -> None:
        """Set the delay, rate and loss of the line, so that a round trip takes `link.delay_ms` in all."""
        # The kernel itself takes some 0.1 ms for a round trip, a tenth of a delay of 1 ms. So the round trip
        # is measured with the whole delay, and what it takes longer is subtracted from the delay.
        self._shape(self.link.delay_ms / 2)
        with self._ends() as (client, server):
            round_trip_ms = link_check.measure_round_trip_ms(client, server, self.link.delay_ms)
        # On a busy machine, the surplus may be much larger than the kernel's own time, so it is limited.
        surplus_ms = min(max(0.0, round_trip_ms - self.link.delay_ms), MAX_CORRECTION_MS)
        self._shape(max(0.0, self.link.delay_ms - surplus_ms) / 2)

    def _shape(self, one_way_ms: float) -> None:
        """Set this delay in each direction, and the rate and loss of the line, in place of earlier ones."""
        self.one_way_ms = one_way_ms
        if self.shaper == Shaper.RELAY:
            # The relay reads its numbers only when it starts, so each change starts another relay.
            self._end_relay()
            self._start_relay()
        else:
            self._set_netem()

    def _set_netem(self) -> None:
        """Let the kernel delay packets, limit their rate and lose some of them, by its part netem."""
        argv = ["tc", "qdisc", "replace", "dev", INTERFACE, "root", "netem"]
        argv += ["limit", str(QUEUE_LENGTH), "delay", f"{self.one_way_ms * 1e3:.0f}us"]
        if self.link.rate_mbit:
            argv += ["rate", f"{self.link.rate_mbit:g}mbit"]
        if self.link.loss_pct:
            argv += ["loss", f"{self.link.loss_pct:g}%"]
        # Each end of the line delays the packets that it sends: first the client's, then the server's.
        processes.run_program(argv)
        with self.in_server_network():
            processes.run_program(argv)

    def _start_relay(self) -> None:
        """Start the program that delays packets between the TUN devices, on a kernel without netem."""
        delay_ns = round(self.one_way_ms * 1e6)
        bits_per_s = round(self.link.rate_mbit * link_check.BITS_PER_MBIT)
        numbers = [*self._devices, delay_ns, bits_per_s, self.link.loss_pct]
        argv = [str(RELAY), *map(str, numbers)]
        self._relay = processes.start_process(argv, pass_fds=self._devices)

    def _end_relay(self) -> None:
        if self._relay:
            self._relay.kill()
            self._relay.wait()
            self._relay = None

    @contextmanager
    def in_server_network(self) -> Iterator[None]:
        """Let this thread, and the processes that it starts, be in the server's network."""
        isolation.enter_network(self._server_network)
        try:
            yield
        finally:
            isolation.enter_network(self._client_network)

    @contextmanager
    def _ends(self) -> Iterator[tuple[socket.socket, socket.socket]]:
        """Yield two UDP sockets that are connected to each other over the line: client's and server's end."""
        # A socket stays in the network in which it was made.
        with self.in_server_network():
            server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with server, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            server.bind((SERVER_HOST, 0))
            client.bind((CLIENT_HOST, 0))
            client.connect(server.getsockname())
            server.connect(client.getsockname())
            yield client, server

    def measure(self) -> LinkMeasurement:
        """Return the measured round trip and rate of the line, within 2 s on an idle machine.

        If they are not as set, set the line and measure again, up to ATTEMPTS times in all. If the last
        measurement is not as set either, the runs do not count. Raise UserError if most packets are lost.
        """
        measured = self._measure_once()
        for _ in range(ATTEMPTS - 1):
            if measured.is_as_set(self.link.delay_ms, self.link.rate_mbit):
                break
            # Other programs may have disturbed this measurement, or the setting of the delay before it.
            self._shape_exactly()
            measured = self._measure_once()
        return measured

    def measure_again(self) -> LinkMeasurement:
        """Return the measured round trip and rate of the line after the runs, without setting it again.

        Other programs may disturb a measurement. So there are up to ATTEMPTS, until one is as set. Otherwise
        return the closest. Raise UserError if most packets are lost.
        """
        expected = (self.link.delay_ms, self.link.rate_mbit)
        measurements: list[LinkMeasurement] = []
        for _ in range(ATTEMPTS):
            measurements.append(self._measure_once())
            if measurements[-1].is_as_set(*expected):
                break
        return min(measurements, key=lambda measured: measured.deviation(*expected))

    def _measure_once(self) -> LinkMeasurement:
        """Return the round trip, and the rate in each direction, of some hundred packets over the line."""
        delay_ms, rate_mbit = self.link.delay_ms, self.link.rate_mbit
        # The kernel may handle packets of one call as one packet. A line with loss would lose all at once.
        sent_at_once = link_check.MERGED if self.link.merges_packets else 1
        with self._ends() as (client, server):
            round_trip_ms = link_check.measure_round_trip_ms(client, server, delay_ms)
            to_server = link_check.measure_rate_mbit(client, server, rate_mbit, sent_at_once)
            to_client = link_check.measure_rate_mbit(server, client, rate_mbit, sent_at_once)
        return LinkMeasurement(round(round_trip_ms, 4), round(to_server, 3), round(to_client, 3))

    def cpu_s(self) -> float:
        """Return the CPU time of the relay in seconds; 0.0 without a relay."""
        if self._relay is None:
            return 0.0
        return process_facts.usage([self._relay.pid]).cpu_s or 0.0

    def describe(self) -> dict[str, object]:
        """Return what was set, for the context of a round."""
        return {
            **self.link._asdict(),
            "shaper": self.shaper,
            "one_way_ms": round(self.one_way_ms, 4),
        }


def _run_ip(*arguments: str) -> None:
    processes.run_program(["ip", *arguments])


def choose_shaper(link: Link) -> Shaper | None:
    """Return the means that shapes a line on this machine; None if this machine has no means."""
    if not link.is_shaped:
        return Shaper.NONE
    if isolation.is_allowed(try_netem):
        return Shaper.NETEM
    if isolation.is_allowed(try_relay):
        return Shaper.RELAY
    return None


def why_no_link(link: Link) -> str:
    """Return in a clause why client and server cannot have a line between them here; "" if they can."""
    # ip makes the ends of the line, and tc sets its delay.
    for program in ("ip", "tc"):
        if not shutil.which(program):
            return f"{program} is not installed (Debian: iproute2)"
    if not isolation.is_allowed(try_pair):
        return (
            "client and server may not have networks of their own here (root may, outside of most "
            "containers)"
        )
    if choose_shaper(link) is None:
        return (
            f"this kernel has no netem (its module sch_netem), and the relay that takes its place needs "
            f"{TUN} and gcc at set-up"
        )
    return ""


def try_pair() -> None:
    """Make two networks without a limit between them. Raise UserError or OSError if that is not possible."""
    _try_link(Link(0, 0, 0), Shaper.NONE)


def try_netem() -> None:
    _try_link(SHORT_LINK, Shaper.NETEM)


def try_relay() -> None:
    _try_link(SHORT_LINK, Shaper.RELAY)


def _try_link(link: Link, shaper: Shaper) -> None:
    with ExitStack() as stack:
        LinkedNetworks(link, shaper).open(stack)
