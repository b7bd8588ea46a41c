#!/usr/bin/env python3
"""Writes tests/fixtures/noise.json: what torch's CPU generator draws, for lengths on both of its ways.

    pip install torch==2.9.0 && python tests/reference/make_noise.py
"""
import json
from pathlib import Path

import torch

SEEDS = [0, 42, 2**31 + 5, 2**32 + 42, 2**53 - 1]
LENGTHS = [1, 2, 7, 15, 16, 17, 31, 33, 100]

cases = [
    dict(seed=seed, values=torch.randn(n, generator=torch.Generator("cpu").manual_seed(seed)).tolist())
    for seed in SEEDS
    for n in LENGTHS
]
path = Path(__file__).parent.parent / "fixtures" / "noise.json"
path.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
