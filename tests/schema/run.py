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
import time
from pathlib import Path

import requests
from images import data_url, png

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "python"))

from service import Service  # noqa: E402

# Nobody is there: the webhook's tries fail, and no job minds.
WEBHOOK = "https://storymem.invalid/hook"
SECRET = "whsec_" + base64.b64encode(bytes(24)).decode()


def main() -> int:
    program, bundle = sys.argv[1:]
    flags = ["--max-queued-jobs", "1000000"]
    with Service(program, bundle, *flags, environment={"STORYMEM_WEBHOOK_SECRET": SECRET}) as service:
        answers = service.data / "answers.json"
        environment = os.environ | {
            "SCHEMATHESIS_HOOKS": "hooks",
            "PYTHONPATH": str(HERE),
            "STORYMEM_BASE": service.base,
            "STORYMEM_JOB": make_job(service.base),
            "STORYMEM_UPLOAD": make_upload(service.base),
            "STORYMEM_STORY": make_story(service.base),
            "STORYMEM_WEBHOOK": WEBHOOK,
            "STORYMEM_ANSWERS": str(answers),
        }
        checked = subprocess.run(
            [
                Path(sys.executable).with_name("schemathesis"),
                "--config-file", HERE / "schemathesis.toml",
                "run", f"{service.base}/openapi.json",
                "--seed", "1",
            ],
            env=environment,
        ).returncode
        return checked or tell(json.loads(answers.read_text()))


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


if __name__ == "__main__":
    sys.exit(main())
