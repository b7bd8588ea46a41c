"""Tests the running service against its own OpenAPI document with schemathesis, all checks.

usage: run.py <storymem> <bundle>

The service has a worker, so that jobs end and their files are asked for too.
"""

import os
import subprocess
import sys
from pathlib import Path

import requests
from images import data_url, png

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "python"))

from service import Service  # noqa: E402


def main() -> int:
    program, bundle = sys.argv[1:]
    with Service(program, bundle) as service:
        job = make_job(service.base)
        return subprocess.run(
            [
                Path(sys.executable).with_name("schemathesis"),
                "--config-file", HERE / "schemathesis.toml",
                "run", f"{service.base}/openapi.json",
                "--seed", "1",
            ],
            env=os.environ | {"SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(HERE), "STORYMEM_JOB": job},
        ).returncode


def make_job(base: str) -> str:
    """Posts a job and waits until it has succeeded."""
    request = {"prompt": "A lighthouse at dusk", "memory": [{"data": data_url(png(64, 64, 128))}], "seed": 1, "steps": 2}
    answer = requests.post(f"{base}/jobs", json=request)
    answer.raise_for_status()
    job = answer.json()
    while job["status"] in ("queued", "running"):
        job = requests.get(f"{base}/jobs/{job['id']}?wait=10").json()
    assert job["status"] == "succeeded", job
    return job["id"]


if __name__ == "__main__":
    sys.exit(main())
