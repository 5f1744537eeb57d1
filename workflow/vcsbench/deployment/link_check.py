"""Measure the round trip and the rate of a line between two sockets of this process."""

import os
import socket
import statistics
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from vcsbench.errors import UserError

# More than the delay of each line. A packet that is not there after this time is lost.
LOST_AFTER_S = 0.25
# All round trips of a measurement take about this time, within the limits of their number.
ROUND_TRIPS_S = 0.2
# More lost round trips in succession are no loss of the line.
MAX_LOST = 3
MIN_ROUND_TRIPS, MAX_ROUND_TRIPS = 9, 101
# A train of packets takes about this time on a line, within the limits of its length. It has to fit into the
# queue of the line, which is longer than the longest train, and be long against the time of a single wake-up.
TRAIN_S = 0.05
MIN_TRAIN, MAX_TRAIN = 50, 400
TRAINS = 3
# The largest packet of Ethernet: a datagram, and its headers of UDP, IP and Ethernet.
DATAGRAM_BYTES = 1472
FRAME_BYTES = DATAGRAM_BYTES + 8 + 20 + 14
BITS_PER_MBIT = 1e6
# Round trip and rate may differ from what was set by this share.
TOLERANCE = 0.05
# After the runs, the line is not set again. A busy machine alone makes a short round trip longer by more than
# the share above. So up to this share, the runs count, and get a warning.
TOLERANCE_AFTER_RUNS = 0.2
# A train, with the kernel's overhead for each packet.
BUFFER_BYTES = 4 << 20
# Options of socket(7) that Python does not name. With FORCE, root may exceed the limit of the system.
SO_SNDBUFFORCE, SO_RCVBUFFORCE, SO_TIMESTAMPNS = 32, 33, 35
# An option of udp(7): the kernel cuts what is sent at once into datagrams of this size.
SOL_UDP, UDP_SEGMENT = 17, 103
# The most datagrams that can be sent at once.
MERGED = 65507 // DATAGRAM_BYTES
# The kernel sets up several interfaces of a second one after another.
READY_LIMIT_S = 10.0
TIMESPEC = struct.Struct("@ll")
NUMBER = struct.Struct("!I")


class LinkMeasurement(NamedTuple):
    """The median round trip of a line, and its median rate in each direction."""

    round_trip_ms: float
    to_server_mbit: float
    to_client_mbit: float

    def is_as_set(self, delay_ms: float, rate_mbit: float, tolerance: float = TOLERANCE) -> bool:
        """Return True if the line has the delay and the rate that were set, up to a share of `tolerance`.

        The loss is not compared, because a measurement has too few packets to count lost ones.
        """
        return self.deviation(delay_ms, rate_mbit) <= tolerance

    def deviation(self, delay_ms: float, rate_mbit: float) -> float:
        """Return the largest share by which the line differs from what was set, such as 0.1 for 22 ms of 20.

        0 stands for no delay, or no limit of the rate, and is not compared.
        """
        expected_and_measured = [
            (delay_ms, self.round_trip_ms),
            (rate_mbit, self.to_server_mbit),
            (rate_mbit, self.to_client_mbit),
        ]
        shares = [
            abs(measured - expected) / expected
            for expected, measured in expected_and_measured
            if expected > 0
        ]
        return max(shares, default=0.0)


def wait_for_first_packet(client: socket.socket, server: socket.socket) -> None:
    """Send packets from one end of a line until one arrives at the other end.

    The kernel may drop all packets of a new network interface for a second or more. Raise UserError if no
    packet arrives within READY_LIMIT_S.
    """
    server.settimeout(LOST_AFTER_S)
    deadline = time.monotonic() + READY_LIMIT_S
    sent = 0
    while time.monotonic() < deadline:
        client.send(b"first")
        sent += 1
        with suppress(TimeoutError):
            server.recv(DATAGRAM_BYTES)
            return
    raise _lost_error(0, sent)


def measure_round_trip_ms(
    client: socket.socket, server: socket.socket, expected_ms: float
) -> float:
    """Return the median time of a round trip over a line: a small packet, and one back.

    The delay that was set, `expected_ms` (0: none), decides on the number of round trips. Raise UserError if
    more than MAX_LOST round trips in succession are lost.
    """
    count = _number_of_round_trips(expected_ms)
    for end in (client, server):
        end.settimeout(LOST_AFTER_S)
    times_ms: list[float] = []
    lost_in_succession = 0
    with _before_other_programs():
        # One more than `count`: the first round trip does not count, see below.
        for number in range(count + 1):
            # Each packet has a number, so that a late one is not taken for the present one.
            data = NUMBER.pack(number)
            began = time.perf_counter()
            try:
                client.send(data)
                _receive(server, data)
                server.send(data)
                _receive(client, data)
            except TimeoutError:
                # A line may lose a single packet on purpose.
                lost_in_succession += 1
                if lost_in_succession > MAX_LOST:
                    raise _lost_error(len(times_ms), number + 1) from None
                continue
            lost_in_succession = 0
            times_ms.append((time.perf_counter() - began) * 1e3)
    # The first round trip also looks up the address of the other side, so it does not count.
    return statistics.median(times_ms[1:])


def _number_of_round_trips(expected_ms: float) -> int:
    """Return how many round trips of this time fit into ROUND_TRIPS_S, within the limits of their number."""
    if not expected_ms:
        return MAX_ROUND_TRIPS
    trips_in_time = int(ROUND_TRIPS_S * 1e3 / expected_ms)
    return min(MAX_ROUND_TRIPS, max(MIN_ROUND_TRIPS, trips_in_time))


@contextmanager
def _before_other_programs() -> Iterator[None]:
    """Let this thread run before other programs, if it has the right, so that it measures only the line."""
    # 0 stands for this thread.
    policy, parameter = os.sched_getscheduler(0), os.sched_getparam(0)
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, parameter)


def _receive(end: socket.socket, data: bytes) -> None:
    # An earlier packet may be late.
    while end.recv(DATAGRAM_BYTES) != data:
        pass


def measure_rate_mbit(
    sender: socket.socket, receiver: socket.socket, expected_mbit: float, sent_at_once: int
) -> float:
    """Return the rate of a line in Mbit/s: the median of the rates of some trains.

    A train is a row of large packets without gaps. It waits in the queue of the line, and arrives at the rate
    of the line. So neither the delay nor the slow start of TCP is part of this rate. As on a real line, the
    headers of packets count. The rate that was set, `expected_mbit` (0: no limit), decides on the number of
    packets. Each call of the kernel sends `sent_at_once` packets. Raise UserError if half of a train is lost.
    """
    packets = _number_of_packets(expected_mbit)
    _set_train_options(sender, receiver, is_cut_by_kernel=sent_at_once > 1)
    rates = []
    with _before_other_programs():
        # The content of the packets has the number of their train, because some may arrive late.
        for number in range(TRAINS):
            datagram = NUMBER.pack(number).ljust(DATAGRAM_BYTES, b"\1")
            unsent = packets
            while unsent:
                count = min(unsent, sent_at_once)
                sender.send(datagram * count)
                unsent -= count
            arrivals_ns = _receive_train(receiver, datagram, packets)
            rates.append(_rate_of_train_mbit(arrivals_ns))
    return statistics.median(rates)


def _number_of_packets(expected_mbit: float) -> int:
    """Return how many packets take about TRAIN_S at this rate, within the limits of their number."""
    if not expected_mbit:
        return MAX_TRAIN
    packets_in_time = int(expected_mbit * BITS_PER_MBIT * TRAIN_S / (FRAME_BYTES * 8))
    return min(MAX_TRAIN, max(MIN_TRAIN, packets_in_time))


def _set_train_options(
    sender: socket.socket, receiver: socket.socket, is_cut_by_kernel: bool
) -> None:
    """Prepare two sockets for a train. With `is_cut_by_kernel`, the sender passes several packets at once."""
    # The buffers hold a whole train.
    sender.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, BUFFER_BYTES)
    receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    # The kernel notes the time of each arrival, so it does not matter when this process reads.
    receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    # At a high rate, a call for each packet would take too long: the queue of the line would be empty in
    # between. But before Linux 6.11, a device without checksums of its own, such as the relay's device on a
    # line with loss, refuses to send with this option.
    if is_cut_by_kernel:
        sender.setsockopt(SOL_UDP, UDP_SEGMENT, DATAGRAM_BYTES)


def _receive_train(receiver: socket.socket, datagram: bytes, packets: int) -> list[int]:
    """Return the times in ns at which the packets of a train arrive, as the kernel has noted them.

    Each packet has the content `datagram`. Lost packets are left out. Raise UserError if half are lost.
    """
    arrivals_ns: list[int] = []
    # If no packet arrives within this time, all packets that are still missing are lost.
    receiver.settimeout(LOST_AFTER_S)
    while len(arrivals_ns) < packets:
        try:
            data, ancillary, _, _ = receiver.recvmsg(
                DATAGRAM_BYTES, socket.CMSG_SPACE(TIMESPEC.size)
            )
        except TimeoutError:
            break
        # A packet of an earlier train may be late.
        if data == datagram:
            # `ancillary` has one message: the option's level and type, and the time of arrival.
            seconds, nanoseconds = TIMESPEC.unpack(ancillary[0][2])
            arrivals_ns.append(seconds * 1_000_000_000 + nanoseconds)
    if len(arrivals_ns) <= packets / 2:
        raise _lost_error(len(arrivals_ns), packets)
    return arrivals_ns


def _rate_of_train_mbit(arrivals_ns: Sequence[int]) -> float:
    """Return the rate at which packets arrived at these times; 0 if all arrived at the same time."""
    # The time runs from the first arrival. Packets that arrive at this moment were on the line before, so
    # only later packets count. A lost packet takes no time on the line, so it does not change the rate.
    later_packets = sum(arrival_ns > arrivals_ns[0] for arrival_ns in arrivals_ns)
    duration_s = (arrivals_ns[-1] - arrivals_ns[0]) / 1e9
    if not duration_s:
        return 0.0
    return later_packets * FRAME_BYTES * 8 / BITS_PER_MBIT / duration_s


def _lost_error(arrived: int, sent: int) -> UserError:
    return UserError(
        f"the network between client and server: only {arrived} of {sent} packets have arrived. Free some "
        f"processors, and run again."
    )
