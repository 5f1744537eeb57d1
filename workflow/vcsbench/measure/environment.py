"""The environment of what is timed, and what of ours would change programs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from vcsbench.programs import CLIENT_ENVIRONMENT, Programs
from vcsbench.urls import without_password

# Loaders, C libraries, Subversion and its libraries take these; so does whoever goes through a proxy.
CHANGING = re.compile(
    r"LD_.*|GLIBC_TUNABLES|MALLOC_.*|SVN_.*|APR_.*|SERF_.*|OPENSSL_.*|GCONV_PATH|"
    r"(http|https|ftp|all|no)_proxy",
    re.IGNORECASE,
)
_WITHOUT_SCHEME = re.compile(r"^[^/\s]*@")


def environment(client: Programs, own: Mapping[str, str]) -> dict[str, str]:
    """The environment of what is timed; `own` is the command's."""
    return {**client.environment(os.environ), **CLIENT_ENVIRONMENT, **own}


def changing() -> dict[str, str]:
    """The variables of our own environment that reach client and server and change programs, secrets left
    out."""
    found = {name: value for name, value in os.environ.items() if CHANGING.fullmatch(name)}
    # A proxy may be given without a scheme: user:password@host:port.
    return {
        name: _WITHOUT_SCHEME.sub("...@", without_password(value))
        for name, value in sorted(found.items())
    }
