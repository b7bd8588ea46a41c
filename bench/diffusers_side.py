#!/usr/bin/env python3
"""One shot with diffusers, the way a careful user runs it on a CPU: `inference_mode`, fused attention (SDPA), f32,
memory-mapped weights with the LoRA merged beforehand. As in StoryMem's own inference, guidance is two forwards of
batch one.

Writes the timings as `storymem generate --timings` does, and the final latents as `--dump` does.
"""
from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

import torch
from diffusers import AutoencoderKLWan, WanTransformer3DModel
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers import UMT5EncoderModel

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/reference"))
import storymem  # noqa: E402


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="folder that make_model.py filled")
    parser.add_argument("--shot", type=Path, required=True, help="JSON of the shot, as run.py writes it")
    parser.add_argument("--timings", type=Path, required=True, help="JSON to write")
    parser.add_argument("--dump", type=Path, required=True, help="safetensors to write")
    args = parser.parse_args()
    shot = json.loads(args.shot.read_text())
    torch.set_num_threads(shot["threads"])
    timings, latent = make_shot(load(args.model), shot)
    save_file({"latent": latent.contiguous()}, args.dump)
    args.timings.write_text(json.dumps(timings | {"total_seconds": process_age()}, indent=1))


def load(model: Path) -> storymem.Nets:
    components = model / "users/base_i2v_diffusers"
    experts = {"high": "transformer", "low": "transformer_2"}
    return storymem.Nets(
        tokenizer=Tokenizer.from_file(str(components / "tokenizer/tokenizer.json")),
        text_encoder=UMT5EncoderModel.from_pretrained(components / "text_encoder", dtype=torch.float32),
        vae=AutoencoderKLWan.from_pretrained(components / "vae", torch_dtype=torch.float32),
        experts={
            name: WanTransformer3DModel.from_pretrained(model / "diffusers" / folder, torch_dtype=torch.float32)
            for name, folder in experts.items()
        },
        boundary=json.loads((components / "model_index.json").read_text())["boundary_ratio"],
    )


def make_shot(nets: storymem.Nets, shot: dict) -> tuple[dict, torch.Tensor]:
    loaded = process_age()
    prompt, negative = (storymem.encode_prompt(nets, shot[text]) for text in ("prompt", "negative_prompt"))
    texts_done = process_age()
    memory = [storymem.load_image(path) for path in shot["memory"]]
    condition = storymem.make_condition(nets.vae, memory, [], shot["frames"], shot["height"], shot["width"])
    noise = storymem.draw_noise(condition, shot["seed"])
    guidance = dict.fromkeys(nets.experts, shot["guidance"])
    sampling = storymem.Sampling(shot["steps"], shot["shift"], guidance, shot["seed"])
    marks = [process_age()]
    for _, latent in storymem.denoise(nets, noise, condition, len(memory), prompt, negative, sampling):
        marks.append(process_age())
    storymem.decode_video(nets.vae, latent[:, len(memory) :])
    return dict(
        start_to_first_step_seconds=marks[0],
        step_seconds=[end - begin for begin, end in zip(marks, marks[1:])],
        text_seconds=texts_done - loaded,
        encode_seconds=marks[0] - texts_done,
        decode_seconds=process_age() - marks[-1],
    ), latent


def process_age() -> float:
    """Seconds since the kernel started this process: the interpreter's own start and the imports count."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")  # field 22 of proc(5), after the pid and the name
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


if __name__ == "__main__":
    main()
