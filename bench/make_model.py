#!/usr/bin/env python3
"""Makes the benchmark's model: random weights, in a form for either side.

OUT/users/        what a user downloads: Wan's names, F32, two experts, a LoRA of rank 16; `storymem export` reads it
OUT/diffusers/    the experts with the LoRA merged in, as diffusers' `from_pretrained` loads them fastest
OUT/inputs/       memory images
OUT/model.json    numbers of parameters

Both sides are so spared the merging when they start.
"""
from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from diffusers import AutoencoderKLWan, WanTransformer3DModel
from PIL import Image
from transformers import UMT5Config, UMT5EncoderModel

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/reference"))
import checkpoint  # noqa: E402

SEED = 5
TRANSFORMER = dict(
    num_attention_heads=8, attention_head_dim=128, num_layers=8, ffn_dim=2816, freq_dim=256, text_dim=256,
    in_channels=36, out_channels=16, rope_max_seq_len=1024)
TEXT_ENCODER = dict(
    d_model=256, d_kv=64, num_heads=4, d_ff=640, num_layers=4, feed_forward_proj="gated-gelu", dropout_rate=0.0)
VAE = dict(base_dim=16)
LORA_RANK = 16
SHIFT, BOUNDARY = 4.0, 0.9
TEXTS = ["a slow pan across a quiet harbour at dawn while fishing boats leave", "blurry low quality static frame"]
MEMORY_IMAGES = [(480, 832), (720, 960)]  # height, width
EXPERTS = {"high": "transformer", "low": "transformer_2"}


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    generator = torch.Generator("cpu").manual_seed(SEED)
    counts = write_components(out / "users", generator)
    for name, folder in EXPERTS.items():
        counts[f"transformer_{name}"] = write_expert(out, name, folder, generator)
    write_inputs(out / "inputs", generator)
    checkpoint.write_json(out / "model.json", counts)


def write_components(users: Path, generator: torch.Generator) -> dict[str, int]:
    specials = {"<pad>": 0, "</s>": 1, "<unk>": 2}
    tokenizer = checkpoint.write_tokenizer(users, TEXTS, specials)
    config = UMT5Config(vocab_size=tokenizer.get_vocab_size(), **TEXT_ENCODER)
    nets = dict(text_encoder=UMT5EncoderModel(config), vae=AutoencoderKLWan(**VAE))
    for name, net in nets.items():
        checkpoint.randomise(net, generator, gain=1.4 if name == "vae" else 1.0)
        net.save_pretrained(users / checkpoint.COMPONENTS / name)
    return {name: net.num_parameters() for name, net in nets.items()}


def write_expert(out: Path, name: str, folder: str, generator: torch.Generator) -> int:
    model = checkpoint.randomise(WanTransformer3DModel(**TRANSFORMER), generator)
    state = {checkpoint.wan_name(key): tensor for key, tensor in model.state_dict().items()}
    users = out / "users"
    checkpoint.write_transformer(users / f"base_i2v/{name}_noise_model", state, shards=2)
    checkpoint.write_json(users / f"base_i2v/{name}_noise_model/config.json", wan_config(model))
    checkpoint.write_component_configs(users, model, SHIFT, BOUNDARY)
    lora = checkpoint.draw_lora(model, LORA_RANK, generator)
    checkpoint.write_tensors(users / checkpoint.LORA_FOLDER / f"backbone_{name}_noise.safetensors", lora)
    checkpoint.merge_lora(model, lora)
    model.save_pretrained(out / "diffusers" / folder)
    return model.num_parameters()


def wan_config(model: WanTransformer3DModel) -> dict:
    """The configuration as Wan's own checkpoints have it."""
    config = model.config
    return dict(
        _class_name="WanModel", model_type="i2v", dim=config.num_attention_heads * config.attention_head_dim,
        ffn_dim=config.ffn_dim, freq_dim=config.freq_dim, in_dim=config.in_channels, out_dim=config.out_channels,
        text_len=512, num_heads=config.num_attention_heads, num_layers=config.num_layers, eps=config.eps)


def write_inputs(folder: Path, generator: torch.Generator) -> None:
    folder.mkdir(parents=True)
    for index, size in enumerate(MEMORY_IMAGES):
        coarse = torch.rand(1, 3, 6, 8, generator=generator)
        pixels = F.interpolate(coarse, size, mode="bicubic").clamp(0, 1)[0].permute(1, 2, 0)
        Image.fromarray((255 * pixels).round().byte().numpy()).save(folder / f"memory_{index}.png")


if __name__ == "__main__":
    main()
