"""Uses OpenAI's own Python client on `/v1/videos`. Arguments: the service's address, a key, a PNG."""

import base64
import sys
import warnings
from pathlib import Path

import openai

warnings.simplefilter("ignore", DeprecationWarning)
base, key, path = sys.argv[1:]
client = openai.OpenAI(base_url=f"{base}/v1", api_key=key, max_retries=0)

# A file to begin with, and settings that OpenAI has no names for.
video = client.videos.create(
    prompt="A lighthouse at dusk", input_reference=Path(path), model="storymem", size="64x64", seconds="1",
    extra_body={"steps": 2, "seed": 7})
assert video.object == "video" and video.status in ("queued", "in_progress"), video
assert video.model == "storymem" and video.size == "64x64", video
video = client.videos.poll(video.id, poll_interval_ms=200)
assert video.status == "completed" and video.progress == 100 and video.completed_at, video
assert abs(float(video.seconds) - 1) < 0.15, video.seconds
mp4 = client.videos.download_content(video.id).read()
assert mp4[4:8] == b"ftyp", mp4[:16]
assert client.videos.download_content(video.id, variant="thumbnail").read()[:2] == b"\xff\xd8"

# By an address in place of a file, which this client has no argument for.
data = "data:image/png;base64," + base64.b64encode(Path(path).read_bytes()).decode()
second = client.videos.create(
    prompt="A lighthouse at dawn", size="64x64", extra_body={"steps": 2, "input_reference": {"image_url": data}})
ids = [item.id for item in client.videos.list(limit=1)]
assert ids[0] == second.id and video.id in ids, "all pages, the newest first"

# What is wrong is said in OpenAI's shape.
try:
    client.videos.create(prompt="", input_reference=Path(path), size="65x64")
    raise AssertionError("a wrong request was taken")
except openai.UnprocessableEntityError as error:
    assert error.code == "validation_failed" and "/prompt" in error.message and "/size" in error.message, error
try:
    client.videos.create(prompt="nothing to begin with")
    raise AssertionError("a request without an image was taken")
except openai.UnprocessableEntityError as error:
    assert error.param == "input_reference", error
try:
    openai.OpenAI(base_url=f"{base}/v1", api_key="sm_wrong", max_retries=0).videos.list()
    raise AssertionError("a wrong key was taken")
except openai.AuthenticationError:
    pass

assert client.videos.poll(second.id, poll_interval_ms=200).status == "completed"
assert client.videos.delete(video.id).deleted
try:
    client.videos.retrieve(video.id)
    raise AssertionError("a deleted video was found")
except openai.APIStatusError as error:
    assert error.status_code == 410, error
