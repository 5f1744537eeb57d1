"""Namespaces of a measurement: its servers are reached by no other process, and its mounts seen by none."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

# linux/sched.h, sys/mount.h, linux/sockios.h, net/if.h
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
MS_REC, MS_SLAVE = 0x4000, 1 << 19
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
REQUEST = struct.Struct("16sh22x")

# Whether this process has entered a user namespace with a network of its own.
_in_user_namespace = False


@contextmanager
def own_network() -> Iterator[None]:
    """Give this thread, and all that it starts, a network with a loopback interface only.

    It takes root, and 0.6 ms. Raise OSError without the right to it.
    """
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        _unshare(CLONE_NEWNET)
        try:
            _raise_loopback()
            yield
        finally:
            _check(_libc().setns(before, CLONE_NEWNET))
    finally:
        os.close(before)


def enter_user_namespace() -> None:
    """Give this process a network and mounts of its own without root, for good. Its user stays the same.

    Raise OSError if the kernel or its administrator does not allow it, or the process has a second thread.
    """
    global _in_user_namespace
    if _in_user_namespace:
        return
    uid, gid = os.geteuid(), os.getegid()
    _unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS)
    for name, text in (
        ("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")
    ):  # fmt: skip
        Path("/proc/self", name).write_text(text)
    _raise_loopback()
    _in_user_namespace = True


@cache
def own_mounts() -> None:
    """Give this process, and all that it starts from now on, mounts of its own, for good.

    An unmount outside of it reaches it. Raise OSError without the right to it.
    """
    if not _in_user_namespace:
        _unshare(CLONE_NEWNS)
    _check(_libc().mount(None, b"/", None, MS_REC | MS_SLAVE, None))


@cache
def can_own_network() -> bool:
    """Return True if own_network() works here."""
    return os.geteuid() == 0 and _works(lambda: _unshare(CLONE_NEWNET))


@cache
def can_own_mounts() -> bool:
    """Return True if own_mounts() works here."""
    return _works(own_mounts.__wrapped__)


@cache
def can_enter_user_namespace() -> bool:
    """Return True if enter_user_namespace() works here."""
    return _works(enter_user_namespace)


def _works(act: Callable[[], None]) -> bool:
    """Return True if an act raises nothing, in a child process that ends with it."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1] == 0


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        name, flags = REQUEST.unpack(fcntl.ioctl(any_socket, SIOCGIFFLAGS, REQUEST.pack(b"lo", 0)))
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, REQUEST.pack(name, flags | IFF_UP))


def _unshare(flags: int) -> None:
    _check(_libc().unshare(flags))


def _check(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
