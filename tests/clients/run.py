"""Generates clients from the OpenAPI documents and uses them against a running service that asks for a key.

usage: run.py STORYMEM BUNDLE WORK_FOLDER

Each client does the same: creates a job by JSON and one by a form with files, follows it to its end, fetches the
video, cancels a job, and reads the code and the pointers of an error. What each generator is told is in this file.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BIN = Path(sys.executable).parent
sys.path += [str(HERE.parent / "schema"), str(HERE.parent / "python")]

from images import png  # noqa: E402
from service import Service  # noqa: E402


def main(storymem: str, bundle: str, work: str) -> None:
    storymem, work = Path(storymem).resolve(), Path(work).resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    validate()
    clients = [python(work / "python"), typescript(work / "typescript"), go(work / "go"), openai()]
    with Service(str(storymem), bundle) as service:
        key = service.keys("add", "--owner", "clients").strip()
        image = work / "memory.png"
        image.write_bytes(png(64, 64, 128))
        for name, command in clients:
            print(f"== {name}", flush=True)
            subprocess.run([*command, service.base, key, image], check=True)


def validate() -> None:
    for name in ("openapi.json", "openapi-3.0.json"):
        run(BIN / "openapi-spec-validator", ROOT / "openapi" / name)


def python(work: Path):
    """openapi-python-client, which reads 3.1."""
    config = HERE / "python" / "generator.yaml"
    run(BIN / "openapi-python-client", "generate", "--path", ROOT / "openapi/openapi.json", "--config", config,
        "--output-path", work, "--fail-on-warning", path=BIN)
    return "Python", ["env", f"PYTHONPATH={work}", sys.executable, HERE / "python" / "use.py"]


def typescript(work: Path):
    """openapi-typescript and openapi-fetch, which read 3.1."""
    shutil.copytree(HERE / "typescript", work)
    run("npm", "ci", "--silent", "--no-audit", "--no-fund", cwd=work)
    run("npx", "openapi-typescript", ROOT / "openapi/openapi.json", "--output", "storymem.d.ts", cwd=work)
    run("npx", "tsc", "--project", ".", cwd=work)
    return "TypeScript", ["node", work / "out/use.js"]


def go(work: Path):
    """openapi-generator, which is most at home with 3.0."""
    options = "packageName=storymem,enumClassPrefix=true,withGoMod=false,generateInterfaces=false"
    run(BIN / "openapi-generator-cli", "generate", "--input-spec", ROOT / "openapi/openapi-3.0.json",
        "--generator-name", "go", "--output", work / "storymem", "--additional-properties", options,
        "--global-property", "apiTests=false,modelTests=false,apiDocs=false,modelDocs=false", quiet=True)
    # What the generated code imports besides Go's own library; Debian has it.
    download = ["apt-get", "download", "golang-gopkg-validator.v2-dev"]
    if subprocess.run(download, cwd=work, capture_output=True).returncode:
        # A machine that has never asked knows of no packages.
        run("apt-get", "update", quiet=True)
        run(*download, cwd=work, quiet=True)
    (package,) = work.glob("*.deb")
    run("dpkg", "-x", package, work / "debian")
    validator = work / "debian/usr/share/gocode/src/gopkg.in/validator.v2"
    (validator / "go.mod").write_text("module gopkg.in/validator.v2\n")
    (work / "go.mod").write_text(
        "module use\n\ngo 1.23\n\nrequire gopkg.in/validator.v2 v2.0.1\n\n"
        f"replace gopkg.in/validator.v2 => {validator}\n")
    shutil.copy(HERE / "go" / "use.go", work)
    run(BIN / "go", "build", "-o", "use", "use.go", cwd=work,
        env={"GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local", "GOCACHE": str(work / "cache")})
    return "Go", [work / "use"]


def openai():
    """OpenAI's own client, which is not generated from our document: `/v1/videos`."""
    return "OpenAI", [sys.executable, HERE / "openai" / "use.py"]


def run(*command, cwd=None, env=None, path=None, quiet=False) -> None:
    environment = os.environ | (env or {})
    if path:
        environment["PATH"] = f"{path}:{environment['PATH']}"
    silent = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} if quiet else {}
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=environment, text=True, **silent)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: ended with {done.returncode}\n{done.stdout or ''}")


if __name__ == "__main__":
    main(*sys.argv[1:])
