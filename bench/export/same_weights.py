"""Fails unless two folders' experts hold the same tensors, up to one rounding to F16.

usage: same_weights.py BUNDLE FOLDER
"""

import sys
from pathlib import Path

import torch
from safetensors import safe_open


def main():
    bundle, folder = map(Path, sys.argv[1:])
    worst, differing, count = 0.0, 0, 0
    for name in ("transformer_high.safetensors", "transformer_low.safetensors"):
        with safe_open(bundle / "weights" / name, "pt") as ours, safe_open(folder / name, "pt") as theirs:
            keys = sorted(key for key in ours.keys() if not key.startswith("__pad."))
            assert keys == sorted(theirs.keys()), set(keys) ^ set(theirs.keys())
            for key in keys:
                a, b = ours.get_tensor(key), theirs.get_tensor(key)
                assert a.dtype == b.dtype and a.shape == b.shape, key
                a, b = a.float(), b.float()
                # Sums in another order may fall on the other side of the middle between two F16 numbers.
                step = torch.clamp(b.abs() * 2**-10, min=2**-24)
                worst = max(worst, float(((a - b).abs() / step).max()))
                differing += int((a != b).sum())
                count += a.numel()
    print(f"merged weights: {differing / count:.1e} of {count} differ, by {worst:.2f} steps of F16 at most")
    sys.exit(worst > 1)


if __name__ == "__main__":
    main()
