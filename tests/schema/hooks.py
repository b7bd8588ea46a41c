"""What the document can't say by itself: images that decode, and requests that a model can serve."""

import os

import schemathesis
from hypothesis import strategies as st
from images import data_url, png
from schemathesis import GenerationMode

images = st.builds(png, st.integers(1, 64), st.integers(1, 64), st.integers(0, 255))

schemathesis.openapi.format("data-url", images.map(data_url))
for media_type in ("image/png", "image/jpeg", "image/webp"):
    schemathesis.openapi.media_type(media_type, images)

UPLOAD = {"upload": os.environ["STORYMEM_UPLOAD"]}
FRAME = {"job": os.environ["STORYMEM_JOB"], "keyframe": "last"}


@schemathesis.hook
def map_case(context, case):
    """Requests that are meant to be good: what is left to the model and the operator is made so, the rest stays."""
    if case.meta is None or case.meta.generation.mode != GenerationMode.POSITIVE:
        return case
    operation = f"{case.operation.method.upper()} {case.operation.path}"
    if operation == "POST /jobs" and isinstance(case.body, dict):
        case.body = form(case.body) if "request" in case.body else served(case.body)
    if operation == "GET /jobs/{id}" and case.query.get("wait"):
        # The jobs of this test wait for long.
        case.query["wait"] = min(case.query["wait"], 1)
    return case


def form(body: dict) -> dict:
    body = dict(body)
    given = served(body["request"]) if isinstance(body["request"], dict) else {}
    body["request"] = {name: value for name, value in given.items() if name not in ("memory", "first_frame")}
    body["memory"] = [png(32, 32, 7)]
    body["first_frame"] = png(32, 32, 9)
    body.pop("motion_frames", None)
    return body


def served(request: dict) -> dict:
    """The demo model makes shots of MI2V: from memory, with a first frame or without."""
    request = {name: value for name, value in request.items() if value is not None}
    request["memory"] = [served_image(image) for image in request.get("memory", [UPLOAD])]
    if "first_frame" in request:
        request["first_frame"] = served_image(request["first_frame"])
    request.pop("motion_frames", None)
    # Webhooks are off.
    request.pop("webhook_url", None)
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
