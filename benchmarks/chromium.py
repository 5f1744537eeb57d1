"""A headless Chromium in real time, told what to do over its DevTools protocol through two pipes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
OPTIONS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND",
    "--window-size=1400,1000", "--remote-debugging-pipe",
]  # fmt: skip


class Chromium:
    """One tab of a browser that has its profile in a folder; a context, which ends the browser."""

    def __init__(self, profile: Path) -> None:
        self.profile, self.sent = profile, 0

    def __enter__(self) -> Chromium:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        argv = [CHROMIUM, *OPTIONS, f"--user-data-dir={self.profile}", "about:blank"]
        # The protocol is at the descriptors 3 and 4, whichever these pipes have here.
        ends = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self.process = subprocess.Popen(
            ["bash", "-c", ends, "bash", *argv],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self.out, self.replies = os.fdopen(ours_out, "wb"), os.fdopen(ours_in, "rb")
        self.session = ""
        tabs = self.ask("Target.getTargets")["targetInfos"]
        tab = next(one["targetId"] for one in tabs if one["type"] == "page")
        attached = self.ask("Target.attachToTarget", targetId=tab, flatten=True)
        self.session = attached["sessionId"]
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        # As a user would end it: what it has started still writes into the profile when it is killed.
        self.session = ""
        self.ask("Browser.close")
        self.process.wait()
        self.out.close()
        self.replies.close()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """What the browser replies to a method of the protocol; ends with what it says where that fails."""
        self.sent += 1
        said: dict[str, Any] = {"id": self.sent, "method": method, "params": params}
        if self.session:
            said["sessionId"] = self.session
        self.out.write(json.dumps(said).encode() + b"\0")
        self.out.flush()
        while (reply := self._next()).get("id") != self.sent:
            pass
        if "error" in reply:
            sys.exit(f"{method}: {reply['error']['message']}")
        return dict(reply["result"])

    def _next(self) -> dict[str, Any]:
        told = bytearray()
        while (byte := self.replies.read(1)) != b"\0":
            if not byte:
                sys.exit("chromium has ended")
            told += byte
        return dict(json.loads(told))

    def open(self, address: str) -> None:
        """Go to an address; returns once that has begun to come."""
        self.ask("Page.navigate", url=address)

    def value(self, script: str) -> Any:
        """What a script in the page comes to, once that is settled."""
        reply = self.ask(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in reply:
            sys.exit(f"in the page: {reply['exceptionDetails']}")
        return reply["result"].get("value")
