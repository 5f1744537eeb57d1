"""The time of a job in its record: when it began, and how long it took."""

import time
from typing import TypedDict


class TimeSpan(TypedDict):
    """The start of a job in seconds since 1970, and its duration."""

    began: float
    seconds: float


def span_since(begun: float) -> TimeSpan:
    """Return the time span of a job that ends now. `begun` is its start, a time of time.monotonic()."""
    seconds = time.monotonic() - begun
    # The machine's clock may be set while the job runs. So the start is computed from the duration.
    return {"began": round(time.time() - seconds, 3), "seconds": round(seconds, 3)}
