"""Measure with a network and mounts of one's own."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from vcsbench.errors import UserError
from vcsbench.kernel import check_result, libc

if TYPE_CHECKING:
    from vcsbench.records import Recipe

# Constants of unshare(2) and mount(2).
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
MS_REC, MS_SLAVE = 0x4000, 1 << 19
# Constants of netdevice(7), and its struct ifreq: the name of an interface and its flags.
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
REQUEST = struct.Struct("16sh22x")


def isolate_network(recipe: Recipe) -> None:
    """Give this process and its children, for good, the network that a cell's recipe requires.

    A network of its own keeps other users of the machine from the server of the cell. Call this before the
    process starts a thread: a network belongs to a thread and its later children. Raise UserError if this
    process has not the right to make a network.
    """
    # The virtual machine has a network of its own already.
    if recipe.get("is_in_guest"):
        return
    # With any other value than "user" and "own" (plan.recipe.Network), the process keeps its network.
    network = recipe.get("network")
    try:
        if network == "user":
            # A user namespace gives the right to make a network.
            unshare_user()
        elif network == "own":
            unshare_network()
    except OSError as error:
        raise UserError(
            f"the server's network: this process may not have its own ({error.strerror}), as it could "
            f"when the workflow run began. Run again, as the same user."
        ) from None


@cache
def unshare_network() -> None:
    """Enter a network with a loopback interface only, for good. It takes root, and 0.6 ms."""
    enter_new_network()


def enter_new_network() -> None:
    """Enter a new network with a loopback interface only. Raise OSError without the right to it."""
    check_result(libc.unshare(CLONE_NEWNET))
    # The loopback interface of a new network is down.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        name, flags = REQUEST.unpack(fcntl.ioctl(any_socket, SIOCGIFFLAGS, REQUEST.pack(b"lo", 0)))
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, REQUEST.pack(name, flags | IFF_UP))


def open_network() -> int:
    """Return a descriptor of this thread's network. The network exists at least as long as it is open."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY)


def enter_network(descriptor: int) -> None:
    """Let this thread, and the processes that it starts, use a network. Raise OSError without the right."""
    check_result(libc.setns(descriptor, CLONE_NEWNET))


@cache
def unshare_user() -> None:
    """Enter a user namespace, and a network with a loopback interface only, for good. It needs no root.

    The user stays the same: in the namespace, the ids of user and group stand for themselves. Raise OSError
    if the kernel or its administrator does not allow it, or if the process has a second thread.
    """
    uid, gid = os.geteuid(), os.getegid()
    check_result(libc.unshare(CLONE_NEWUSER))
    # The kernel allows a user to map his group only without the right to drop groups: user_namespaces(7).
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    unshare_network()


@cache
def unshare_mounts() -> None:
    """Give this process and its future children mounts of its own. Raise OSError without the right."""
    check_result(libc.unshare(CLONE_NEWNS))
    # MS_SLAVE: mounts of this process do not appear outside, and an unmount outside arrives here.
    check_result(libc.mount(None, b"/", None, MS_REC | MS_SLAVE, None))


@cache
def is_allowed(act: Callable[[], object]) -> bool:
    """Return True if a function, such as unshare_network(), raises nothing in a child process."""
    # The function may change its process for good, so a child calls it. os._exit() ends the child even after
    # an exception, so the child never goes on with the code of its parent, whose files it has.
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    return status == 0
