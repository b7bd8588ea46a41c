#!/usr/bin/env python3
"""Benchmarks `storymem generate` against the same shot with diffusers: same weights, same size, same threads, one after
the other. Prints a table, writes `.cache/bench/last.json`, and fails when the final latents differ.

What is measured, alike on both sides:
  denoising step         two forwards and the solver; the median over the steps
  start to first step    from the start of the process, as the kernel knows it, to the beginning of the first denoising
                         step, and to its end. Encoding prompts and images is part of it; loading is what remains
  peak memory            largest resident set (ru_maxrss), which counts mapped weight files as far as they are touched;
                         and the largest part of it that is no file, sampled ten times a second
Weights and libraries are read once before each run, so that both sides find them in the page cache. Each starts from
its prepared form, LoRA merged: a bundle made by `storymem export`, and folders for diffusers' `from_pretrained`.

The first run makes a Python environment (7 GB, torch brings CUDA along) and the model (2 GB) in `.cache/bench`.
"""
from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
import venv
from array import array
from dataclasses import asdict, dataclass
from pathlib import Path

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
CACHE = ROOT / ".cache/bench"
REFERENCE = ROOT / "tests/reference"
SAME_LATENTS = 1e-3  # largest relative error at which both sides count as having computed the same thing
PROMPT = "a slow pan across a quiet harbour at dawn"
NEGATIVE_PROMPT = "blurry low quality"


@dataclass
class Measurement:
    """One run of one side; seconds and bytes."""

    start_to_first_step_begins: float
    start_to_first_step_ends: float
    of_which_loading: float
    of_which_prompts: float
    of_which_images: float
    median_step: float
    decode: float
    start_to_frames: float
    peak_memory: float
    peak_anonymous_memory: float


def main() -> None:
    args = parse_arguments()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])  # children inherit it
    CACHE.mkdir(parents=True, exist_ok=True)
    python = args.python or make_environment()
    model = make_model(python)
    shot = write_shot(args, model)
    sides = {}
    if args.only != "diffusers":
        sides["storymem"] = storymem_side(args.storymem, model, shot)
    if args.only != "storymem":
        sides["diffusers"] = diffusers_side(python, model)
    runs = {name: [] for name in sides}
    for number in range(args.repeat):
        for name, command in sides.items():
            print(f"{name}: run {number + 1} of {args.repeat} …", file=sys.stderr, flush=True)
            runs[name].append(measure(name, command, weights_of(name, model)))
    report(runs, shot, json.loads((model / "model.json").read_text()))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--storymem", type=Path,
                        default=os.environ.get("STORYMEM_BIN", ROOT / "target/release/storymem"),
                        help="the binary [env STORYMEM_BIN; default target/release/storymem]")
    parser.add_argument("--size", default="320x192", help="width and height, multiples of 16 [%(default)s]")
    parser.add_argument("--frames", type=int, default=17, help="4n+1 [%(default)s]")
    parser.add_argument("--steps", type=int, default=4, help="[%(default)s]")
    parser.add_argument("--threads", type=int, default=2, help="processors either side may use [%(default)s]")
    parser.add_argument("--repeat", type=int, default=1,
                        help="runs of each side, in turns; medians count [%(default)s]")
    parser.add_argument("--only", choices=["storymem", "diffusers"], help="run one side alone")
    parser.add_argument("--python", type=Path, help="an interpreter that has requirements.txt, instead of making one")
    return parser.parse_args()


# --- what both sides need ----------------------------------------------------------------------------------------


def make_environment() -> Path:
    """The throw-away environment with diffusers; made anew when the requirements change."""
    folder = CACHE / "venv"
    files = [BENCH / "requirements.txt", REFERENCE / "requirements.txt"]
    marker = folder / "made-for"
    if not marker.exists() or marker.read_text() != digest(files):
        print("installing diffusers …", file=sys.stderr, flush=True)
        venv.create(folder, clear=True, with_pip=True)
        run_to_end([folder / "bin/pip", "install", "--quiet", "-r", BENCH / "requirements.txt"])
        marker.write_text(digest(files))
    return folder / "bin/python"


def make_model(python: Path) -> Path:
    """The model's folder; its name follows from what makes it, so a change of that makes another."""
    files = [BENCH / "make_model.py", REFERENCE / "checkpoint.py"]
    folder = CACHE / f"model-{digest(files)[:12]}"
    if not folder.exists():
        print("making the model …", file=sys.stderr, flush=True)
        for old in CACHE.glob("model-*"):
            shutil.rmtree(old)
        unfinished = CACHE / "model-unfinished"
        run_to_end([python, BENCH / "make_model.py", unfinished])
        unfinished.rename(folder)
    return folder


def run_to_end(command: list) -> None:
    """Runs a preparation, whose output is not the benchmark's; ends the program if it fails."""
    if not Path(command[0]).exists():
        sys.exit(f"`{command[0]}` does not exist; build it first, or name another by `--storymem` or `--python`")
    code = subprocess.run(command, stdout=sys.stderr).returncode
    if code:
        sys.exit(f"`{Path(command[0]).name} {command[1]}` failed with {code}")


def digest(files: list[Path]) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def write_shot(args: argparse.Namespace, model: Path) -> dict:
    """Every number is spelt out, so that no side's defaults matter."""
    width, height = (int(number) for number in args.size.split("x"))
    shot = dict(
        prompt=PROMPT, negative_prompt=NEGATIVE_PROMPT, width=width, height=height, frames=args.frames,
        steps=args.steps, shift=4.0, guidance=3.5, seed=42, threads=args.threads,
        memory=[str(path) for path in sorted((model / "inputs").glob("memory_*.png"))])
    (CACHE / "shot.json").write_text(json.dumps(shot, indent=1))
    return shot


# --- the two sides -----------------------------------------------------------------------------------------------


def storymem_side(binary: Path, model: Path, shot: dict) -> list:
    """Exports the bundle, and returns the command that makes the shot."""
    users, bundle = model / "users", CACHE / "bundle"
    shutil.rmtree(bundle, ignore_errors=True)
    begin = time.monotonic()
    run_to_end([
        binary, "export", "--components", users / "base_i2v_diffusers", "--transformer", users / "base_i2v",
        "--lora", users / "storymem/Wan2.2-MI2V-A14B", "--variant", "mi2v", "--dtype", "f32", "--out", bundle])
    print(f"storymem export took {time.monotonic() - begin:.1f} s", file=sys.stderr)
    return [
        binary, "generate", "--bundle", bundle,
        "--prompt", shot["prompt"], "--negative-prompt", shot["negative_prompt"],
        *(argument for path in shot["memory"] for argument in ("--memory", path)),
        "--size", f"{shot['width']}x{shot['height']}", "--fit", "size", "--frames", str(shot["frames"]),
        "--steps", str(shot["steps"]), "--shift", str(shot["shift"]), "--guidance", str(shot["guidance"]),
        "--seed", str(shot["seed"]), "--out", CACHE / "storymem.mp4", *outputs("storymem")]


def diffusers_side(python: Path, model: Path) -> list:
    return [python, BENCH / "diffusers_side.py", "--model", model, "--shot", CACHE / "shot.json", *outputs("diffusers")]


def outputs(side: str) -> list:
    return ["--timings", CACHE / f"{side}.timings.json", "--dump", CACHE / f"{side}.safetensors"]


def weights_of(side: str, model: Path) -> list[Path]:
    folders = [CACHE / "bundle"] if side == "storymem" else [model / "diffusers", model / "users/base_i2v_diffusers"]
    return [file for folder in folders for file in sorted(folder.rglob("*.safetensors"))]


# --- measuring ---------------------------------------------------------------------------------------------------


def measure(side: str, command: list, weights: list[Path]) -> Measurement:
    subprocess.run([*command[:2], "--help"], check=True, stdout=subprocess.DEVNULL)  # brings in code and libraries
    for file in weights:
        read_through(file)
    log = CACHE / f"{side}.log"
    peak, anonymous, wall = run_watched(command, log)
    timings = json.loads((CACHE / f"{side}.timings.json").read_text())
    unseen = wall - timings["total_seconds"]
    if unseen > 1:
        print(f"{side}: {unseen:.1f} s of the process lie outside its own clock, at its start or exit", file=sys.stderr)
    begins, steps = timings["start_to_first_step_seconds"], timings["step_seconds"]
    return Measurement(
        start_to_first_step_begins=begins,
        start_to_first_step_ends=begins + steps[0],
        of_which_loading=begins - timings["text_seconds"] - timings["encode_seconds"],
        of_which_prompts=timings["text_seconds"],
        of_which_images=timings["encode_seconds"],
        median_step=statistics.median(steps),
        decode=timings["decode_seconds"],
        start_to_frames=begins + sum(steps) + timings["decode_seconds"],
        peak_memory=peak,
        peak_anonymous_memory=anonymous,
    )


def run_watched(command: list, log: Path) -> tuple[int, int, float]:
    """Runs to the end; peak resident and peak anonymous memory in bytes, and wall-clock seconds."""
    begin = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    samples, ended = [0], threading.Event()
    watcher = threading.Thread(target=watch_anonymous_memory, args=(process.pid, samples, ended))
    watcher.start()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    ended.set()
    watcher.join()
    if process.returncode:
        end = log.read_text(errors="replace")[-2000:]
        sys.exit(f"{Path(command[0]).name} failed with {process.returncode}; the end of {log}:\n{end}")
    return usage.ru_maxrss * 1024, max(samples), wall


def watch_anonymous_memory(pid: int, samples: list[int], ended: threading.Event) -> None:
    while not ended.wait(0.1):
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return
        samples += [int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon:")]


def read_through(file: Path) -> None:
    with file.open("rb", buffering=0) as stream:
        while stream.read(1 << 22):
            pass


# --- reporting ---------------------------------------------------------------------------------------------------

MIB, SECONDS = (1 << 20, "MiB", ".0f"), (1, "s", ".2f")
ROWS = {
    "median_step": ("denoising step, median", SECONDS),
    "start_to_first_step_begins": ("start to first step, begin", SECONDS),
    "of_which_loading": ("  of which loading", SECONDS),
    "of_which_prompts": ("  of which prompts", SECONDS),
    "of_which_images": ("  of which images", SECONDS),
    "start_to_first_step_ends": ("start to first step, end", SECONDS),
    "decode": ("decoding frames", SECONDS),
    "start_to_frames": ("start to frames", SECONDS),
    "peak_memory": ("peak memory", MIB),
    "peak_anonymous_memory": ("  of which anonymous", MIB),
}


def report(runs: dict[str, list[Measurement]], shot: dict, parameters: dict[str, int]) -> None:
    """Prints the table, writes `last.json`, and ends the program with an error if the latents differ."""
    medians = {side: median_of(measurements) for side, measurements in runs.items()}
    millions = ", ".join(f"{name} {count / 1e6:.1f} M" for name, count in parameters.items())
    print(f"\nparameters: {millions}; f32")
    print(f"shot: {shot['width']}x{shot['height']}, {shot['frames']} frames and {len(shot['memory'])} of memory, "
          f"{shot['steps']} steps, {shot['threads']} threads\n")
    print(f"{'':32}" + "".join(f"{side:>12}" for side in runs) + ("       ratio" if len(runs) == 2 else ""))
    for field, (label, (unit, unit_name, form)) in ROWS.items():
        values = [median[field] for median in medians.values()]
        ratio = f"{values[0] / values[1]:>12.3f}" if len(values) == 2 else ""
        print(f"{f'{label} ({unit_name})':32}" + "".join(f"{value / unit:>12{form}}" for value in values) + ratio)
    error = latent_error() if len(runs) == 2 else None
    result = dict(shot=shot, parameters=parameters, medians=medians, latent_relative_error=error,
                  runs={side: [asdict(run) for run in measurements] for side, measurements in runs.items()})
    (CACHE / "last.json").write_text(json.dumps(result, indent=1))
    if error is not None:
        print(f"{'final latents, relative error':32}{error:>12.1e}")
        if not error <= SAME_LATENTS:  # not a number fails too
            sys.exit(f"the final latents differ by more than {SAME_LATENTS}: the sides did not compute the same thing")


def median_of(measurements: list[Measurement]) -> dict[str, float]:
    return {field: statistics.median(getattr(one, field) for one in measurements) for field in ROWS}


def latent_error() -> float:
    ours, theirs = (read_latent(CACHE / f"{side}.safetensors") for side in ("storymem", "diffusers"))
    if len(ours) != len(theirs):
        sys.exit(f"the final latents have {len(ours)} and {len(theirs)} numbers")
    difference = sum((a - b) ** 2 for a, b in zip(ours, theirs))
    return (difference / sum(b * b for b in theirs)) ** 0.5


def read_latent(path: Path) -> array:
    """The F32 tensor `latent` of a safetensors file: a length, a JSON header, then the data."""
    content = path.read_bytes()
    data = 8 + int.from_bytes(content[:8], "little")
    entry = json.loads(content[8:data])["latent"]
    begin, end = entry["data_offsets"]
    numbers = array("f")
    numbers.frombytes(content[data + begin : data + end])
    return numbers


if __name__ == "__main__":
    main()
