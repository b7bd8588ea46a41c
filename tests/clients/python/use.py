"""Uses the generated Python client. Arguments: the service's address, a key, a PNG."""

import base64
import sys
from io import BytesIO
from pathlib import Path

from storymem import AuthenticatedClient
from storymem.api.jobs import cancel_job, create_job, get_job, get_video, list_jobs
from storymem.api.uploads import create_upload
from storymem.models import (
    CreateJob, CreateJobForm, CreateJobSolver, ErrorCode, ImageData, ImageUpload, Job, JobStatus, Problem, Upload)
from storymem.types import File

base, key, path = sys.argv[1:]
image = Path(path).read_bytes()
client = AuthenticatedClient(base_url=base, token=key, timeout=90)

# By JSON, with an image in it and one that was uploaded.
upload = create_upload.sync(client=client, body=File(BytesIO(image)))
assert isinstance(upload, Upload) and (upload.width, upload.height) == (64, 64), upload
data = ImageData(data="data:image/png;base64," + base64.b64encode(image).decode())
request = CreateJob(
    prompt="A lighthouse at dusk", memory=[data, ImageUpload(upload=upload.id)], size="64x64", steps=2,
    solver=CreateJobSolver.UNIPC, seed=7)
job = create_job.sync(client=client, body=request, idempotency_key="python-1")
assert isinstance(job, Job), job
again = create_job.sync(client=client, body=request, idempotency_key="python-1")
assert again.id == job.id, "the same key gives the same job"

# By a form, with files.
form = CreateJobForm(
    request=CreateJob(prompt="A lighthouse at dawn", size="64x64", steps=2),
    memory=[File(BytesIO(image), "memory.png", "image/png")])
second = create_job.sync(client=client, body=form)
assert isinstance(second, Job) and second.id != job.id, second

while job.status not in (JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED):
    job = get_job.sync(job.id, client=client, wait=30)
assert job.status == JobStatus.SUCCEEDED and job.effective.seed == 7, job
video = get_video.sync(job.id, client=client).payload.read()
assert video[4:8] == b"ftyp" and len(video) == job.result.bytes_, len(video)

# Cancel, and the code of an error.
long = create_job.sync(client=client, body=CreateJob(prompt="Long", memory=[data], size="320x192", steps=100))
cancelled = cancel_job.sync(long.id, client=client)
assert cancelled.status in (JobStatus.CANCELLED, JobStatus.CANCELLING), cancelled
wrong = create_job.sync(client=client, body=CreateJob(prompt="", memory=[data], steps=0))
assert isinstance(wrong, Problem) and wrong.code == ErrorCode.VALIDATION_FAILED, wrong
assert {error.pointer for error in wrong.errors} == {"/prompt", "/steps"}, wrong
assert long.id in [item.id for item in list_jobs.sync(client=client, limit=10).items]
