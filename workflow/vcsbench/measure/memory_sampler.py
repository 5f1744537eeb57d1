"""Sample the memory of a server and its processes during a run."""

import threading

from vcsbench import process_facts

# To read the memory of a server with 64 processes takes 5 ms.
INTERVAL_S = 0.2
# For an untimed run: a process for one request may live for some hundredths of a second.
SHORT_INTERVAL_S = 0.01


class MemorySampler(threading.Thread):
    """Read the memory of a process with its descendants at intervals, in a thread, until stop().

    `peak_bytes` is the largest sum that was read: of the peaks (VmHWM) of all processes that lived at that
    moment. Memory that processes share counts in each. It is None if the kernel reports no memory.
    """

    def __init__(self, pid: int, interval_s: float = INTERVAL_S) -> None:
        """Start the thread for the process `pid`. It reads the memory every `interval_s` seconds."""
        super().__init__(daemon=True)
        self.pid = pid
        self.interval_s = interval_s
        self.peak_bytes: int | None = None
        self.is_stopped = threading.Event()
        self.start()

    def run(self) -> None:
        self._sample()
        while not self.is_stopped.wait(self.interval_s):
            self._sample()

    def _sample(self) -> None:
        sum_bytes = process_facts.peak_memory_bytes(self.pid)
        if sum_bytes is not None:
            self.peak_bytes = max(self.peak_bytes or 0, sum_bytes)

    def stop(self) -> None:
        """Read the memory for the last time, and wait for the end of the thread."""
        self.is_stopped.set()
        self.join()
        self._sample()
