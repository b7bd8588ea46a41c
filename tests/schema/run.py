"""Tests the running service against its own OpenAPI document with schemathesis, all checks.

usage: run.py <storymem> <bundle>

The service has a worker, so that jobs end and their files are asked for too. Whatever the checks say, each operation must
have succeeded at least once: a test that only meets errors tests little.
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import requests
from images import data_url, png

HERE = Path(__file__).parent
# Nobody is there: the webhook's tries fail, and no job minds.
WEBHOOK = "https://storymem.invalid/hook"
SECRET = "whsec_" + base64.b64encode(bytes(24)).decode()


def main() -> int:
    program, bundle = sys.argv[1:]
    with tempfile.TemporaryDirectory() as data:
        service = subprocess.Popen(
            [program, "serve", "--bundle", bundle, "--data-dir", data, "--listen", "127.0.0.1:0", "--threads", "1"]
            + ["--max-queued-jobs", "1000000"],
            env=os.environ | {"STORYMEM_WEBHOOK_SECRET": SECRET},
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            base = f"http://{find_address(service)}"
            answers = Path(data, "answers.json")
            environment = os.environ | {
                "SCHEMATHESIS_HOOKS": "hooks",
                "PYTHONPATH": str(HERE),
                "STORYMEM_BASE": base,
                "STORYMEM_JOB": make_job(base),
                "STORYMEM_UPLOAD": make_upload(base),
                "STORYMEM_STORY": make_story(base),
                "STORYMEM_WEBHOOK": WEBHOOK,
                "STORYMEM_ANSWERS": str(answers),
            }
            checked = subprocess.run(
                [
                    Path(sys.executable).with_name("schemathesis"),
                    "--config-file", HERE / "schemathesis.toml",
                    "run", f"{base}/openapi.json",
                    "--seed", "1",
                ],
                env=environment,
            ).returncode
            return checked or tell(json.loads(answers.read_text()))
        finally:
            service.terminate()
            service.wait()


def tell(answers: dict[str, dict[str, int]]) -> int:
    """Shows how often each operation has answered with what."""
    failed = []
    for operation, counts in sorted(answers.items()):
        print(f"{operation:36}", "  ".join(f"{status}: {count}" for status, count in sorted(counts.items())))
        if not any(status.startswith("2") for status in counts):
            failed.append(operation)
    if failed:
        print("never succeeded:", ", ".join(failed))
    return len(failed)


def make_job(base: str) -> str:
    """Posts a job and waits until it has succeeded."""
    request = {"prompt": "A lighthouse at dusk", "memory": [{"data": data_url(png(64, 64, 128))}], "seed": 1, "steps": 2}
    request["webhook_url"] = WEBHOOK
    answer = requests.post(f"{base}/jobs", json=request)
    answer.raise_for_status()
    job = answer.json()
    while job["status"] in ("queued", "running"):
        job = requests.get(f"{base}/jobs/{job['id']}?wait=10").json()
    assert job["status"] == "succeeded", job
    return job["id"]


def make_story(base: str) -> str:
    """Posts a story and waits until it has its film."""
    scene = {"scene_num": 1, "video_prompts": ["A lighthouse at dusk", "The lamp is lit"], "cut": [True, False]}
    request = {"script": {"scenes": [scene]}, "memory": [{"data": data_url(png(64, 64, 128))}], "seed": 1, "steps": 2}
    answer = requests.post(f"{base}/stories", json=request)
    answer.raise_for_status()
    story = answer.json()
    while story["status"] in ("queued", "running"):
        time.sleep(0.2)
        story = requests.get(f"{base}/stories/{story['id']}").json()
    assert story["status"] == "succeeded", story
    return story["id"]


def make_upload(base: str) -> str:
    answer = requests.post(f"{base}/uploads", data=png(64, 64, 200), headers={"Content-Type": "image/png"})
    answer.raise_for_status()
    return answer.json()["id"]


def find_address(service: subprocess.Popen) -> str:
    lines = []
    for line in service.stderr:
        lines.append(line)
        if "http.address=" in line:
            address = line.split("http.address=")[1].split()[0]
            # Whoever writes to a full pipe waits: keep reading.
            threading.Thread(target=lambda: [None for _ in service.stderr], daemon=True).start()
            return address
    sys.exit("the service did not start:\n" + "".join(lines))


if __name__ == "__main__":
    sys.exit(main())
