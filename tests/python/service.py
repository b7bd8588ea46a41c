"""The real service, as tests in Python start and stop it."""

import os
import subprocess
import tempfile
import threading
from pathlib import Path


class Service:
    """`storymem serve` on a bundle and a new data directory, with a worker; for a `with` statement."""

    def __init__(self, program: str, bundle: str, *flags: str, environment: dict[str, str] | None = None):
        self.program = program
        self._environment = os.environ | (environment or {})
        self._command = [program, "serve", "--bundle", bundle, "--threads", "1", *flags]

    def __enter__(self) -> "Service":
        self._folder = tempfile.TemporaryDirectory()
        self.data = Path(self._folder.name, "data")
        self._start("127.0.0.1:0")
        return self

    def __exit__(self, *_) -> None:
        self.stop()
        self._folder.cleanup()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()

    def restart(self) -> None:
        """Starts it again where it was, on the same data."""
        self._start(self.base.removeprefix("http://"))

    def keys(self, *arguments: str) -> str:
        """`storymem keys …` on its data; gives what that prints."""
        command = [self.program, "keys", *arguments, "--data-dir", str(self.data)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def _start(self, listen: str) -> None:
        command = [*self._command, "--data-dir", str(self.data), "--listen", listen]
        self._process = subprocess.Popen(command, env=self._environment, stderr=subprocess.PIPE, text=True)
        self.base = f"http://{self._address()}"

    def _address(self) -> str:
        said = []
        for line in self._process.stderr:
            said.append(line)
            if os.environ.get("STORYMEM_SHOW_LOG"):
                print(line, end="")
            if "http.address=" in line:
                # Whoever writes to a full pipe waits: keep reading.
                threading.Thread(target=self._read_on, daemon=True).start()
                return line.split("http.address=")[1].split()[0]
        raise RuntimeError("the service did not start:\n" + "".join(said))

    def _read_on(self) -> None:
        for line in self._process.stderr:
            if os.environ.get("STORYMEM_SHOW_LOG"):
                print(line, end="")
