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
SCRIPT = {"scenes": [{"scene_num": 1, "video_prompts": ["A lighthouse at dusk", "The lamp"], "cut": [True, False]}]}
STORY_FIELDS = ("script", "connect", "first_shot", "max_memory", "fixed_memory", "seeds")
FRAME = {"job": os.environ["STORYMEM_JOB"], "keyframe": "last"}
KEPT = (os.environ["STORYMEM_JOB"], os.environ["STORYMEM_STORY"])


def name(case) -> str:
    return f"{case.operation.method.upper()} {case.operation.path}"


def changes(case) -> bool:
    """Whether it takes away what others read, or makes it anew."""
    return case.operation.method.upper() == "DELETE" or case.operation.path.endswith("/redo")


@schemathesis.hook
def map_case(context, case):
    """Requests that are meant to be good: what is left to the model and the operator is made so, the rest stays."""
    if changes(case) and str(case.path_parameters.get("id", "")).removeprefix("video_") in KEPT:
        # What has succeeded stays, for others to read.
        case.path_parameters["id"] = cancelled_story() if "/stories" in case.operation.path else cancelled_job()
    if case.meta is None or any(part.mode != GenerationMode.POSITIVE for part in case.meta.components.values()):
        return case
    # Schemathesis holds a form for broken that was touched.
    if name(case) == "POST /jobs" and case.media_type == "application/json" and isinstance(case.body, dict):
        case.body = served(case.body)
    if name(case) == "POST /jobs/{id}/cancel":
        case.path_parameters["id"] = waiting_job()
    if name(case) == "POST /jobs/{id}/retry":
        case.path_parameters["id"] = cancelled_job()
    if name(case) == "POST /stories" and case.media_type == "application/json" and isinstance(case.body, dict):
        case.body = served_story(case.body)
    if name(case) == "POST /v1/videos" and case.media_type == "application/json" and isinstance(case.body, dict):
        case.body = served_video(case.body)
    if name(case) == "DELETE /v1/videos/{id}":
        case.path_parameters["id"] = cancelled_job()
    if name(case) == "POST /stories/{id}/cancel":
        case.path_parameters["id"] = waiting_story()["id"]
    if name(case) == "PUT /stories/{id}/memory" and isinstance(case.body, dict):
        story = waiting_story()
        case.path_parameters["id"] = story["id"]
        case.body = served_memory(case.body, story)
    if name(case) == "POST /stories/{id}/shots/{shot}/redo":
        case.path_parameters |= {"id": cancelled_story(), "shot": 1}
    if name(case) == "DELETE /stories/{id}":
        case.path_parameters["id"] = cancelled_story()
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


def waiting_story() -> dict:
    return post("/stories", {"script": SCRIPT, "memory": [UPLOAD], "priority": -10})


def cancelled_story() -> str:
    story = waiting_story()["id"]
    post(f"/stories/{story}/cancel", None)
    return story


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


def served_video(request: dict) -> dict:
    """The same in OpenAI's words."""
    request = {name: request[name] for name in ("prompt", "model", "seconds", "size") if name in request}
    request |= {name: value for name, value in {"seconds": "1", "size": "96x64"}.items() if name in request}
    request["prompt"] = request["prompt"] or "A lighthouse"
    return request | {"input_reference": {"file_id": UPLOAD["upload"]}, "priority": -10}


def served_story(request: dict) -> dict:
    """A story of the shots that model makes."""
    own = {name: request.pop(name) for name in STORY_FIELDS if request.get(name) is not None}
    request = served(request)
    script = own.get("script")
    request |= own | {"script": served_script(script) if isinstance(script, dict) else json.dumps(SCRIPT), "first_shot": "memory"}
    if request.get("connect") == "mm2v":
        request["connect"] = "mi2v"
    # Three frames would be too few where a shot goes on from another.
    if "frames" in request:
        request["frames"] += 8
    return request


def served_script(script: dict) -> dict:
    """Lists of one length in each scene, numbers that rise, and a cut at the beginning."""
    scenes = []
    for number, scene in enumerate(script["scenes"][:3], 1):
        prompts = [prompt[:100] or "A lighthouse" for prompt in scene["video_prompts"][:3]]
        scenes.append({"scene_num": number, "video_prompts": prompts, "cut": [True, "False", "True"][: len(prompts)]})
    return script | {"scenes": scenes}


def served_memory(request: dict, story: dict) -> dict:
    """Frames that the story remembers."""
    request = {name: value for name, value in request.items() if value is not None}
    for name in ("pin", "drop"):
        if name in request:
            request[name] = []
    if request.get("pin") == [] and story["memory"]:
        request["pin"] = [story["memory"][0]["id"]]
    if "add" in request:
        request["add"] = [served_image(image) for image in request["add"]]
    return request


def served_image(image: dict) -> dict:
    """An image that is there, of the kind that was asked for."""
    if "upload" in image:
        return UPLOAD
    if "job" in image or "url" in image:
        return FRAME
    return image
