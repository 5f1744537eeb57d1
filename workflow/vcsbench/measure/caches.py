"""Clear caches, and query how much of some files is in the page cache, without reading the files."""

import ctypes
import errno
import itertools
import math
import mmap
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from vcsbench import processes
from vcsbench.kernel import check_result, libc, system_error
from vcsbench.machine import DROP_CACHES
from vcsbench.storages.filesystems import OVERLAY, mount_of

PAGE = mmap.PAGESIZE
MAX_FILES = 50_000
# Before and after each hot run, no more files are queried by their names: 50,000 take 0.3 to 0.5 s.
QUICK_FILES = 50_000
# System calls: cachestat since Linux 6.5, openat2 with RESOLVE_CACHED since 5.12.
CACHESTAT, OPENAT2 = 451, 437
RESOLVE_CACHED = 0x20
# The folder of openat2 for paths that are relative to the current folder, or absolute.
AT_FDCWD = -100
# On these file systems, a cached name is valid without a query of a server or a device.
LOCAL = frozenset(["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs"])

# struct cachestat_range: offset and length, of the whole file. struct open_how: flags, mode, resolve.
_WHOLE_FILE = (ctypes.c_uint64 * 2)(0, 0)
_CACHED_ONLY = (ctypes.c_uint64 * 3)(os.O_RDONLY | os.O_CLOEXEC, 0, RESOLVE_CACHED)
libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
MAP_FAILED = ctypes.c_void_p(-1).value
# Bytes of a file that are read by one call.
LOADED_AT_ONCE = 1 << 20


class Residency(NamedTuple):
    """How much of some files is in memory: `share` (0 to 1) of their bytes, and the bytes of their pages.

    `coverage` has the number of files that were queried, for example "50,000 of 60,000 files".
    """

    share: float
    pages_bytes: int
    coverage: str


class FileUse(NamedTuple):
    """The size of a file, how many of its bytes are cached, and the bytes of the cached pages."""

    size: int
    cached_bytes: int
    pages_bytes: int


def clear_caches(method: str, folders: Sequence[Path]) -> None:
    """Clear all caches of the kernel (`drop-caches`, as root), or only of the files in folders (`evict`)."""
    if method == "drop-caches":
        # 3: page cache, names and inodes.
        DROP_CACHES.write_bytes(b"3")
        return
    existing = [folder for folder in folders if folder.exists()]
    if existing:
        # -e evicts the pages of all files below the folders, and -q prints nothing.
        processes.run_program(["vmtouch", "-qe", *existing])


def query_residency(*paths: Path, max_files: int = MAX_FILES) -> Residency | None:
    """Return how much of the files `paths`, or of all files below them, is in the page cache.

    Of more than `max_files` files, only a sample is queried. Return None if the sample has no bytes, or if a
    file cannot be queried. The query opens files, and that loads their inodes. So caches must be cleared
    again before a cold run.
    """
    files: list[str] = []
    for path in paths:
        files += _list_files(str(path))
    if not files:
        return None
    step = math.ceil(len(files) / max_files)
    sample = files[::step]
    uses: list[FileUse] = []
    try:
        # The file system of the first file stands for all files.
        filesystem = mount_of(sample[0]).filesystem
        for file in sample:
            descriptor = os.open(file, os.O_RDONLY)
            uses.append(_query_and_close(descriptor, filesystem))
    except OSError:
        return None
    total = _sum_uses(uses)
    if not total.size:
        return None
    return Residency(
        # At most 1: `cached_bytes` leaves out the part of a last page that is behind the end of its file.
        share=total.cached_bytes / total.size,
        # The bytes of whole pages. Each file of the sample stands for `step` files.
        pages_bytes=total.pages_bytes * step,
        coverage=f"{len(sample)} of {len(files)} files",
    )


def has_cached_names(*paths: Path) -> bool:
    """Return True if the kernel can report which names below the folders `paths` are in its cache.

    query_residency_by_names() needs that. Return False for a file system that is not in LOCAL, such as NFS,
    and for a kernel before Linux 5.12. This opens the paths, and nothing below them.
    """
    try:
        for path in paths:
            # After this, the name of the folder itself is cached, so _open_cached() has to find it.
            os.close(os.open(path, os.O_RDONLY))
            if mount_of(path).filesystem not in LOCAL:
                return False
            folder = _open_cached(os.fsencode(path))
            if folder is None:
                return False
            os.close(folder)
    except OSError:
        return False
    return True


def have_few_files(*paths: Path) -> bool:
    """Return True if at most QUICK_FILES files are in `paths`: a query by names takes up to about 0.5 s."""
    files = itertools.chain.from_iterable(_list_files(str(path)) for path in paths)
    # The listing stops at one file more than the limit, because it would take long for many files.
    counted = sum(1 for _ in itertools.islice(files, QUICK_FILES + 1))
    return counted <= QUICK_FILES


def query_residency_by_names(size: int, *paths: Path) -> Residency | None:
    """Return how much of the files below the folders `paths` is in memory, without a change of caches.

    `size` is the sum of the bytes of all these files, and is above 0. Only files whose names are in the
    kernel's cache are opened, so no inode is loaded. The others count as not in memory. Return None if a file
    or folder cannot be queried. has_cached_names() has to be True.
    """
    # The parents of a cached name are cached as well. So a folder whose name is not cached is not searched.
    # If memory is short, the kernel may drop a name before the pages of its file: the result is then too low.
    uses: list[FileUse] = []
    try:
        for path in paths:
            uses += _query_cached(os.fsencode(path))
    except OSError:
        return None
    total = _sum_uses(uses)
    # Not `total.size`, which has only the files that were opened.
    return Residency(
        share=total.cached_bytes / size, pages_bytes=total.pages_bytes, coverage="all files"
    )


def load_files(*paths: Path) -> None:
    """Read the files `paths`, or all files below them, so that all of their pages are in the page cache."""
    buffer = bytearray(LOADED_AT_ONCE)
    for path in paths:
        for file in _list_files(str(path)):
            with open(file, "rb", buffering=0) as stream:
                while stream.readinto(buffer):
                    pass


def _list_files(folder: str) -> Iterator[str]:
    if not os.path.isdir(folder):
        yield folder
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                yield entry.path
            elif entry.is_dir(follow_symlinks=False):
                yield from _list_files(entry.path)


def _query_cached(path: bytes) -> Iterator[FileUse]:
    """Yield size and cached bytes (FileUse) of the file `path`, or of each file below the folder `path`.

    Skip paths whose names are not in the kernel's cache: to open one would load its inode.
    """
    descriptor = _open_cached(path)
    if descriptor is None:
        return
    is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
    if not is_folder:
        yield _query_and_close(descriptor)
        return
    try:
        # A folder is listed by its path: by its descriptor, `entry.path` would be a name without the folder.
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from _query_cached(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    # Relative to the open folder, the kernel looks up one name, and not a whole path.
                    file_descriptor = _open_cached(entry.name, descriptor)
                    if file_descriptor is not None:
                        yield _query_and_close(file_descriptor)
    finally:
        os.close(descriptor)


def _open_cached(name: bytes, folder: int = AT_FDCWD) -> int | None:
    """Open a file, and return its descriptor; None if its name is not in the kernel's cache (EAGAIN).

    Raise OSError for any other reason. `folder` is the open folder to which a relative name belongs.
    """
    opened: int = libc.syscall(OPENAT2, folder, name, _CACHED_ONLY, ctypes.sizeof(_CACHED_ONLY))
    if opened >= 0:
        return opened
    if ctypes.get_errno() == errno.EAGAIN:
        return None
    raise system_error(os.fsdecode(name))


def _query_and_close(file: int, filesystem: str = "") -> FileUse:
    """Return size and cached bytes of an open file, and close it. `filesystem` is "" for one in LOCAL."""
    pages_bytes = 0
    try:
        size = os.fstat(file).st_size
        # An empty file cannot be mapped.
        if size:
            count_pages = choose_page_counter(filesystem)
            pages_bytes = count_pages(file, size) * PAGE
    finally:
        os.close(file)
    # The last page may have more bytes than the file.
    return FileUse(size, min(pages_bytes, size), pages_bytes)


def _sum_uses(uses: Iterable[FileUse]) -> FileUse:
    size = 0
    cached_bytes = 0
    pages_bytes = 0
    for use in uses:
        size += use.size
        cached_bytes += use.cached_bytes
        pages_bytes += use.pages_bytes
    return FileUse(size, cached_bytes, pages_bytes)


@cache
def choose_page_counter(filesystem: str) -> Callable[[int, int], int]:
    """Return the function that counts the cached pages of an open file, given its descriptor and its size.

    `filesystem` is the kind of file system that has the file, such as "ext4"; "" for any but an overlay.
    """
    if filesystem == OVERLAY:
        # A file of an overlay has no pages itself: cachestat reports 0. A mapping is of the file below it.
        return count_by_mincore
    # -1 is no file: a kernel that has the call, and allows it, answers EBADF.
    libc.syscall(CACHESTAT, -1, None, None, 0)
    if ctypes.get_errno() in (errno.ENOSYS, errno.EPERM):
        return count_by_mincore
    return count_by_cachestat


def count_by_cachestat(file: int, _size: int) -> int:
    # struct cachestat: cached, dirty, written back, evicted and recently evicted pages.
    pages = (ctypes.c_uint64 * 5)()
    check_result(libc.syscall(CACHESTAT, file, _WHOLE_FILE, pages, 0))
    return pages[0]


def count_by_mincore(file: int, size: int) -> int:
    """Return the number of cached pages of an open file by mapping it: mmap(2) reads nothing of it."""
    address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file, 0)
    if address in (None, MAP_FAILED):
        raise system_error()
    try:
        # A byte for each page, also for a partial last one. The lowest bit is set if the page is in memory.
        states = ctypes.create_string_buffer((size + PAGE - 1) // PAGE)
        check_result(libc.mincore(address, size, states))
        return sum(state & 1 for state in states.raw)
    finally:
        libc.munmap(address, size)
