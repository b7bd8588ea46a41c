"""Starts the service on a bundle, posts a job with two memory images over HTTP, and keeps its video.

    python3 tools/demo.py STORYMEM BUNDLE VIDEO

Nothing but Python's standard library is needed. The service is stopped at the end, its data thrown away.
"""
import base64
import json
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zlib
from pathlib import Path

PROMPT = "A lighthouse keeper climbs the stairs at dusk, lantern in hand, warm light on the walls"


def picture(width: int, height: int, hue: tuple[int, int, int]) -> bytes:
    """A PNG: a disc of one colour on a shaded ground."""
    rows = bytearray()
    for y in range(height):
        rows.append(0)  # no filter
        for x in range(width):
            inside = (x - width / 2) ** 2 + (y - height / 2) ** 2 < (height / 3) ** 2
            rows += bytes(hue) if inside else bytes([40 + 80 * y // height] * 3)

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(rows)))
            + chunk(b"IEND", b""))


def call(url: str, body: dict | None = None) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"} if data else {})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        sys.exit(f"{request.get_method()} {url}: {error.code}\n{error.read().decode()}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_ready(base: str, service: subprocess.Popen) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if service.poll() is not None:
            sys.exit(f"the service ended with status {service.returncode}")
        try:
            urllib.request.urlopen(base + "/readyz", timeout=5).close()
            return
        except OSError:  # not listening yet, or not ready yet
            time.sleep(0.1)
    sys.exit("the service was not ready within a minute")


def make_video(base: str) -> bytes:
    images = [picture(96, 64, (200, 60, 40)), picture(64, 64, (50, 90, 210))]
    memory = [{"data": "data:image/png;base64," + base64.b64encode(i).decode()} for i in images]
    job = json.loads(call(base + "/jobs", {"prompt": PROMPT, "memory": memory, "seed": 42}))
    print(f"POST /jobs → {job['id']}")
    shown = None
    while job["status"] not in ("succeeded", "failed", "cancelled"):
        progress = job["progress"]
        line = f"{job['status']}: {progress['stage']} {progress['step']}/{progress['steps']}, {progress['percent']} %"
        if line != shown:
            print(line)
            shown = line
        time.sleep(0.1)
        job = json.loads(call(f"{base}/jobs/{job['id']}"))
    if job["status"] != "succeeded":
        sys.exit(f"the job {job['status']}: {json.dumps(job['error'], indent=1)}")
    print(json.dumps({key: job[key] for key in ("effective", "result", "timings")}, indent=1))
    return call(f"{base}/jobs/{job['id']}/video")


def main(storymem: str, bundle: str, video: str) -> None:
    base = f"http://127.0.0.1:{free_port()}"
    with tempfile.TemporaryDirectory(prefix="storymem-demo-") as data:
        service = subprocess.Popen([storymem, "serve", "--bundle", bundle, "--data-dir", data,
                                    "--listen", base.removeprefix("http://"), "--device", "cpu"])
        try:
            wait_until_ready(base, service)
            Path(video).write_bytes(make_video(base))
        finally:
            service.terminate()
            service.wait()
    print(f"\nThe video is in {video}. Its model has random weights, so it shows noise: what it proves is the way there.")


if __name__ == "__main__":
    main(*sys.argv[1:])
