#!/usr/bin/env python3
"""Compares this reference with golden outputs that come from elsewhere: the tree `tests/fixtures/tiny`, and known
trajectories of the solvers. Run it after a change to `storymem.py` or `checkpoint.py`.

    python check_tiny.py
"""
from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file

import storymem
from checkpoint import load_nets
from storymem import Sampling

TINY = Path(__file__).resolve().parents[1] / "fixtures/tiny"
TOLERANCE = 2e-5
# Wan's official solvers, 4 steps at shift 4, on v = 0.5 x + 0.1 sin(3 x) + 0.2 t / 1000.
TRAJECTORY_START = [1.0, -0.5, 0.25, 2.0]
TRAJECTORY_ENDS = {
    "unipc": [0.4028449, -0.3153768, -0.0007123575, 1.118468],
    "dpm++": [0.40026, -0.3159836, -0.002807997, 1.112562],
}


def main() -> None:
    torch.set_grad_enabled(False)
    check_solvers()
    facts = json.loads((TINY / "golden/golden.json").read_text())
    for name, known in {"m2v": [], "mi2v": ["first"], "mm2v": [f"motion_{i}" for i in range(5)]}.items():
        check_pipeline(name, facts, known)


def check_solvers() -> None:
    for solver, end in TRAJECTORY_ENDS.items():
        scheduler = storymem.make_scheduler(solver, steps=4, shift=4.0)
        x = torch.tensor(TRAJECTORY_START)
        for t in scheduler.timesteps:
            velocity = 0.5 * x + 0.1 * torch.sin(3 * x) + 0.2 * t / 1000
            x = scheduler.step(velocity[None], t, x[None], return_dict=False)[0][0]
        report(f"solver {solver}", x, torch.tensor(end))


def check_pipeline(name: str, facts: dict, known: list[str]) -> None:
    run, golden = facts["pipeline"][name], load_file(TINY / f"golden/pipeline_{name}.safetensors")
    nets = load_nets(TINY, f"storymem/Wan2.2-{run['variant']}-A14B")
    memory = [storymem.load_image(TINY / f"inputs/memory_{i}.png") for i in range(run["memory"])]
    first = [storymem.load_image(TINY / f"inputs/{image}.png") for image in known]
    condition = storymem.make_condition(nets.vae, memory, first, run["frames"], run["height"], run["width"])
    report(f"{name} condition", condition, golden["condition"])
    guidance = dict.fromkeys(("high", "low"), facts["guidance"])
    sampling = Sampling(run["steps"], facts["shift"], guidance, run["seed"])
    prompt, negative = (storymem.encode_prompt(nets, text) for text in (run["prompt"], facts["negative"]))
    noise = storymem.draw_noise(condition, sampling.seed)
    predictions = []
    for prediction, latent in storymem.denoise(nets, noise, condition, len(memory), prompt, negative, sampling):
        predictions.append(prediction)
    report(f"{name} predictions", torch.stack(predictions), golden["predictions"])
    report(f"{name} latent", latent, golden["latent"])
    report(f"{name} frames", storymem.decode_video(nets.vae, latent[:, len(memory) :]), golden["frames"])


def report(what: str, ours: torch.Tensor, reference: torch.Tensor) -> None:
    error = ((ours - reference).norm() / reference.norm()).item()
    print(f"{what:18} {error:.1e}")
    assert error <= TOLERANCE, f"{what}: relative error {error:.1e}, over {TOLERANCE}"


if __name__ == "__main__":
    main()
