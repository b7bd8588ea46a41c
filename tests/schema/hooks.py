"""What the document can't say by itself: images that decode, and requests that a model can serve."""

import atexit
import json
import os
from collections import Counter
from pathlib import Path

import requests
import schemathesis
from hypothesis import strategies as st
from images import data_url, png
from schemathesis import GenerationMode

images = st.builds(png, st.integers(1, 64), st.integers(1, 64), st.integers(0, 255))

schemathesis.openapi.format("data-url", images.map(data_url))
for media_type in ("image/png", "image/jpeg", "image/webp"):
    schemathesis.openapi.media_type(media_type, images)

BASE = os.environ["STORYMEM_BASE"]
UPLOAD = {"upload": os.environ["STORYMEM_UPLOAD"]}
WEBHOOK = os.environ["STORYMEM_WEBHOOK"]
FRAME = {"job": os.environ["STORYMEM_JOB"], "keyframe": "last"}


def name(case) -> str:
    return f"{case.operation.method.upper()} {case.operation.path}"


@schemathesis.hook
def map_case(context, case):
    """Requests that are meant to be good: what is left to the model and the operator is made so, the rest stays."""
    if name(case) == "DELETE /jobs/{id}" and case.path_parameters.get("id") == FRAME["job"]:
        # The job that has succeeded stays, for others to read.
        case.path_parameters["id"] = cancelled_job()
    if case.meta is None or any(part.mode != GenerationMode.POSITIVE for part in case.meta.components.values()):
        return case
    # Schemathesis holds a form for broken that was touched.
    if name(case) == "POST /jobs" and case.media_type == "application/json" and isinstance(case.body, dict):
        case.body = served(case.body)
    if name(case) == "POST /jobs/{id}/cancel":
        case.path_parameters["id"] = waiting_job()
    if name(case) == "POST /jobs/{id}/retry":
        case.path_parameters["id"] = cancelled_job()
    if name(case) == "GET /jobs/{id}" and "wait" in (case.query or {}):
        # The jobs of this test wait for long.
        case.query["wait"] = 1
    return case


answers: dict[str, Counter] = {}


@schemathesis.hook
def after_call(context, case, response):
    answers.setdefault(name(case), Counter())[response.status_code] += 1


@atexit.register
def tell():
    Path(os.environ["STORYMEM_ANSWERS"]).write_text(json.dumps(answers))


def waiting_job() -> str:
    """One behind all others."""
    request = {"prompt": "A lighthouse at dusk", "memory": [UPLOAD], "priority": -10}
    return post("/jobs", request)["id"]


def cancelled_job() -> str:
    job = waiting_job()
    post(f"/jobs/{job}/cancel", None)
    return job


def post(path: str, body: dict | None) -> dict:
    answer = requests.post(BASE + path, json=body, timeout=30)
    answer.raise_for_status()
    return answer.json()


def served(request: dict) -> dict:
    """The demo model makes shots of MI2V: from memory, with a first frame or without."""
    request = {name: value for name, value in request.items() if value is not None}
    request["memory"] = [served_image(image) for image in request.get("memory", [UPLOAD])]
    if "first_frame" in request:
        request["first_frame"] = served_image(request["first_frame"])
    request.pop("motion_frames", None)
    if "webhook_url" in request:
        request["webhook_url"] = WEBHOOK
    if "size" in request:
        request["size"] = "96x64"
    if "frames" in request:
        request["frames"] = request["frames"] % 40 * 4 + 1
    if "metadata" in request:
        request["metadata"] = {name[:64]: value[:512] for name, value in list(request["metadata"].items())[:16]}
    return request


def served_image(image: dict) -> dict:
    """An image that is there, of the kind that was asked for."""
    if "upload" in image:
        return UPLOAD
    if "job" in image or "url" in image:
        return FRAME
    return image
