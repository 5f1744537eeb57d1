"""Measure the round trip and the rate of a line between two sockets of this process."""

import os
import socket
import statistics
import struct
import time
from collections.abc import Iterator
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

    def is_as_set(self, delay_ms: float, rate_mbit: float) -> bool:
        """Return True if a line has the delay and the rate that were set. 0 is no delay, or no limit.

        A line of 20 ms and 100 Mbit/s may have a round trip of 19 to 21 ms, and 95 to 105 Mbit/s in each
        direction. The loss is not compared: in a second, too few packets are lost to count them.
        """
        pairs = [(delay_ms, self.round_trip_ms)]
        pairs += [(rate_mbit, self.to_server_mbit), (rate_mbit, self.to_client_mbit)]
        return all(
            abs(measured - expected) <= TOLERANCE * expected
            for expected, measured in pairs
            if expected > 0
        )


def wait_for_first_packet(client: socket.socket, server: socket.socket) -> None:
    """Wait until a packet arrives at the server. Raise UserError if none does within READY_LIMIT_S.

    The kernel may drop all packets of a new interface for a second or more.
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
    """Return the median time of a round trip: a small packet to the server, and its answer to the client.

    `expected_ms` (0: no delay) decides on the number of round trips. The time includes that in which the
    kernel wakes both sides, because they wait for a packet. Raise UserError if more than MAX_LOST round trips
    in succession are lost.
    """
    if expected_ms:
        # A long line has fewer round trips, so that all of them take about ROUND_TRIPS_S.
        trips_in_time = int(ROUND_TRIPS_S * 1e3 / expected_ms)
        count = min(MAX_ROUND_TRIPS, max(MIN_ROUND_TRIPS, trips_in_time))
    else:
        count = MAX_ROUND_TRIPS
    for end in (client, server):
        end.settimeout(LOST_AFTER_S)
    times_ms: list[float] = []
    lost_in_succession = 0
    # With a high priority, this thread does not wait for a processor.
    with _before_other_programs():
        # One more than `count`: the first round trip does not count, see below.
        for number in range(count + 1):
            data = NUMBER.pack(number)
            began = time.perf_counter()
            try:
                client.send(data)
                _receive(server, data)
                server.send(data)
                _receive(client, data)
            except TimeoutError:
                lost_in_succession += 1
                if lost_in_succession > MAX_LOST:
                    raise _lost_error(len(times_ms), number + 1) from None
                continue
            lost_in_succession = 0
            times_ms.append((time.perf_counter() - began) * 1e3)
    # The first round trip also looks up the address of the other side, so it does not count.
    return statistics.median(times_ms[1:])


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
    """Return the median rate of trains of large packets in Mbit/s, with headers, as a line counts them.

    A train is a row of packets without gaps. It waits in the queue of the line, and arrives at the rate of
    the line. So neither the delay nor the start of TCP is part of this rate. `expected_mbit` (0: no limit)
    decides on the number of packets. Each call of the kernel sends `sent_at_once` packets. Raise UserError if
    half of the packets of a train are lost.
    """
    if expected_mbit:
        # A slow line has fewer packets, so that a train takes about TRAIN_S.
        packets_in_time = int(expected_mbit * BITS_PER_MBIT * TRAIN_S / (FRAME_BYTES * 8))
        packets = min(MAX_TRAIN, max(MIN_TRAIN, packets_in_time))
    else:
        packets = MAX_TRAIN
    # The buffers hold a whole train.
    sender.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, BUFFER_BYTES)
    receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    # The kernel notes each arrival, so it does not matter when this process reads.
    receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    # The kernel cuts what one call sends into packets. At a high rate, a call for each packet would take too
    # long: the queue would be empty in between. Before Linux 6.11, a device without checksums of its own
    # refuses to send with this option. The relay's device on a line with loss is such a device.
    if sent_at_once > 1:
        sender.setsockopt(SOL_UDP, UDP_SEGMENT, DATAGRAM_BYTES)
    rates = []
    # With a high priority, this thread sends a train without gaps.
    with _before_other_programs():
        # The content of the packets has the number of their train, because some may arrive late.
        for number in range(TRAINS):
            datagram = NUMBER.pack(number).ljust(DATAGRAM_BYTES, b"\1")
            unsent = packets
            while unsent:
                count = min(unsent, sent_at_once)
                sender.send(datagram * count)
                unsent -= count
            rates.append(_receive_train(receiver, datagram, packets))
    return statistics.median(rates)


def _receive_train(receiver: socket.socket, datagram: bytes, packets: int) -> float:
    """Return the rate in Mbit/s at which a train arrives: `packets` packets with the content `datagram`.

    The rate is 0 if all packets arrive at the same time. Raise UserError if half of them are lost.
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
