"""A Chromium that is driven by its DevTools protocol, and a server of a folder, by Python alone."""

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fcntl import F_DUPFD, fcntl
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory
from typing import Any

STAGES = Path(__file__).with_name("stages.js")
SETTLE = 1.0
"""Seconds between the start of a browser and navigation: a user's browser is open already."""
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--enable-unsafe-webgpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)


class Browser:
    """A new browser without caches, driven by its DevTools protocol through two pipes."""

    def __init__(self, program: str, flags: Sequence[str], log: Path) -> None:
        """Start it; `log` gets what it says of itself."""
        self._folder = TemporaryDirectory(ignore_cleanup_errors=True)
        theirs, self._write = os.pipe()
        self._read, answers = os.pipe()
        ends = [fcntl(end, F_DUPFD, 10) for end in (theirs, answers)]

        def place() -> None:
            """Chromium takes the pipes as 3 and 4, which they may be already, in another order."""
            for number, end in enumerate(ends, 3):
                os.dup2(end, number)

        words = [program, *flags, f"--user-data-dir={self._folder.name}"]
        words += ["--remote-debugging-pipe", "about:blank"]
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                words,
                preexec_fn=place,  # noqa: PLW1509 - nothing else would place them
                pass_fds=(3, 4),
                stderr=errors,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "__GL_SHADER_DISK_CACHE": "0"},
            )
        for end in (theirs, answers, *ends):
            os.close(end)
        self._rest, self._last, self._session = b"", 0, ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        found = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        self.call("Page.enable")

    def call(self, method: str, **params: object) -> dict[str, Any]:
        """The answer to one command of the protocol."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise SystemExit(f"{method}: {answer['error']}")
                return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            if not select([self._read], [], [], 60)[0]:
                raise SystemExit("the browser says nothing for a minute")
            read = os.read(self._read, 1 << 20)
            if not read:
                raise SystemExit(f"the browser ended with {self._process.wait()}")
            self._rest += read
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def evaluate(self, expression: str) -> Any:  # noqa: ANN401 - of the page
        """The value of an expression in the page."""
        how = {"awaitPromise": True, "returnByValue": True}
        found = self.call("Runtime.evaluate", expression=expression, **how)
        return found["result"].get("value")

    def until(self, expression: str, patience: float) -> Any:  # noqa: ANN401 - of the page
        """The value of an expression once it is not null."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            found = self.evaluate(
                f"(() => {{ try {{ return {expression} }} catch {{}} }})() ?? null"
            )
            if found is not None:
                return found
            time.sleep(0.05)
        raise SystemExit(f"no answer within {patience:.0f} s")

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)
        self._folder.cleanup()


@dataclass(frozen=True)
class Launcher:
    """Starts browsers."""

    program: str
    flags: tuple[str, ...]
    log: Path
    patience: float

    @contextmanager
    def browser(self) -> Iterator[Browser]:
        """One of them."""
        made = Browser(self.program, self.flags, self.log)
        try:
            yield made
        finally:
            made.close()

    def found(self, address: str) -> dict[str, Any]:
        """Returns the data that a page finds."""
        with self.browser() as browser:
            time.sleep(SETTLE)
            browser.call("Page.addScriptToEvaluateOnNewDocument", source=STAGES.read_text())
            browser.call("Page.navigate", url=address)
            found = browser.until("window.found", self.patience)
            found["stages"] = browser.evaluate("stages()")
        if "error" in found:
            raise RuntimeError(found["error"])
        return found


@contextmanager
def serving(folder: Path, sent: list[Path]) -> Iterator[str]:
    """A server of a folder that notes which files it sends."""

    class Handler(SimpleHTTPRequestHandler):
        extensions_map = {  # noqa: RUF012 - of the class it overrides
            **SimpleHTTPRequestHandler.extensions_map,
            ".mjs": "text/javascript",
            ".js": "text/javascript",
            ".wasm": "application/wasm",
        }

        def do_GET(self) -> None:
            path = Path(self.translate_path(self.path))
            if path.is_file():
                sent.append(path)
            super().do_GET()

        def log_message(self, format: str, *_: object) -> None:  # noqa: A002 - its name there
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
