#!/usr/bin/env python3
"""Benchmarks `storymem export` against a script with torch, peft and safetensors: the same checkpoints, the same disk, the same
threads, one after the other. Prints a table, and fails when the merged weights differ by more than their rounding.

The checkpoints have two blocks of the real width in each expert, with values: 3.7 GB in F32, an adapter of rank 128, and a text
encoder of one layer. `storymem export` also hashes all it reads and writes; the script does not.

Both sides' files are read once before each run, so that they lie in the page cache, and what they wrote is removed after
it. Wall time ends when the process does; a `sync` follows on both sides and is counted.

The first run makes a Python environment (7 GB, torch brings CUDA along) in `.cache/bench/export-venv`.
"""
from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
import venv
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))
from run import CACHE, ROOT, digest, read_through, run_to_end, run_watched  # noqa: E402

TREE = CACHE / "export-tree"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    release = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
    parser.add_argument("--storymem", type=Path, default=release / "storymem", help="the binary [%(default)s]")
    parser.add_argument("--generator", type=Path, default=release / "examples/full-size",
                        help="what makes the checkpoints [%(default)s]")
    parser.add_argument("--python", type=Path, help="an interpreter that has requirements.txt, instead of making one")
    parser.add_argument("--threads", type=int, default=2, help="processors either side may use [%(default)s]")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each side, in turns; medians count [%(default)s]")
    args = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])  # children inherit it
    CACHE.mkdir(parents=True, exist_ok=True)
    python = args.python or make_environment()
    if not TREE.exists():
        unfinished = CACHE / "export-tree-unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        run_to_end([args.generator, "tree", unfinished, "--blocks", "2", "--fill", "2", "--rest", "--link", "--small-text"])
        unfinished.rename(TREE)
    outs = {side: CACHE / f"export-{side}" for side in ("storymem", "peft")}
    commands = {
        "storymem": [
            args.storymem, "export", "--components", TREE / "base_i2v_diffusers", "--transformer", TREE / "base_i2v",
            "--lora", TREE / "storymem/Wan2.2-MI2V-A14B", "--variant", "mi2v", "--out", outs["storymem"]],
        "peft": [python, FOLDER / "peft_side.py", TREE, outs["peft"], "--threads", str(args.threads)],
    }
    runs = {side: [] for side in commands}
    for number in range(args.repeat):
        for side, command in commands.items():
            print(f"{side}: run {number + 1} of {args.repeat} …", file=sys.stderr, flush=True)
            shutil.rmtree(outs[side], ignore_errors=True)
            for file in TREE.rglob("*.safetensors"):
                read_through(file)
            begin = time.monotonic()
            peak, anonymous, _ = run_watched(command, CACHE / f"export-{side}.log")
            subprocess.run(["sync"], check=True)
            runs[side].append((time.monotonic() - begin, peak, anonymous))
    report({side: [statistics.median(column) for column in zip(*rows)] for side, rows in runs.items()})
    comparison = subprocess.run([python, FOLDER / "same_weights.py", *outs.values()])
    for out in outs.values():
        shutil.rmtree(out)
    sys.exit(comparison.returncode)


def make_environment() -> Path:
    """The throw-away environment with peft; made anew when the requirements change."""
    folder = CACHE / "export-venv"
    requirements = FOLDER / "requirements.txt"
    marker = folder / "made-for"
    if not marker.exists() or marker.read_text() != digest([requirements]):
        print("installing torch and peft …", file=sys.stderr, flush=True)
        venv.create(folder, clear=True, with_pip=True)
        run_to_end([folder / "bin/pip", "install", "--quiet", "-r", requirements])
        marker.write_text(digest([requirements]))
    return folder / "bin/python"


def report(medians: dict[str, list[float]]) -> None:
    rows = [("wall time (s)", 1, ".1f"), ("peak memory (MiB)", 1 << 20, ".0f"), ("  of which anonymous (MiB)", 1 << 20, ".0f")]
    print(f"\n{'':28}" + "".join(f"{side:>12}" for side in medians) + "       ratio")
    for i, (label, unit, form) in enumerate(rows):
        ours, theirs = (values[i] / unit for values in medians.values())
        print(f"{label:28}{ours:>12{form}}{theirs:>12{form}}{ours / theirs:>12.3f}")
    (CACHE / "export-last.json").write_text(json.dumps(medians, indent=1))


if __name__ == "__main__":
    main()
