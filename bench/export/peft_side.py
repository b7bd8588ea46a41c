"""Merges StoryMem's LoRA into both experts and stores them in F16, as one does with torch, peft and safetensors.

usage: peft_side.py TREE OUT [--threads N]

Written to be as frugal and quick as the libraries allow: modules are made without memory, tensors of the checkpoint are
mapped and adopted, and each expert is let go of before the next. The text encoder is narrowed and the autoencoder copied, so
that as much is written as by `storymem export`; nothing is hashed.
"""

import argparse
import json
import shutil
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model, set_peft_model_state_dict
from safetensors.torch import load_file, save_file
from torch import nn

TARGETS = [f"{attention}.{name}" for attention in ("self_attn", "cross_attn") for name in "qkvo"] + ["ffn.0", "ffn.2"]


def read_folder(folder):
    tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        tensors.update(load_file(file))
    return tensors


def module_of(tensors):
    """Modules that hold `tensors` under their names: linear layers where there are matrices, parameters elsewhere."""
    root = nn.Module()
    for name, tensor in tensors.items():
        *path, leaf = name.split(".")
        parent = root
        is_linear = leaf in ("weight", "bias") and f"{'.'.join(path)}.weight" in tensors
        is_linear = is_linear and tensors[f"{'.'.join(path)}.weight"].ndim == 2
        for depth, part in enumerate(path):
            if part not in parent._modules:
                last = depth + 1 == len(path)
                parent.add_module(part, linear(tensors, name) if last and is_linear else nn.Module())
            parent = parent._modules[part]
        if not is_linear:
            parent.register_parameter(leaf, nn.Parameter(tensor, requires_grad=False))
    return root


def linear(tensors, name):
    module = name.rpartition(".")[0]
    rows, columns = tensors[f"{module}.weight"].shape
    with torch.device("meta"):
        return nn.Linear(columns, rows, bias=f"{module}.bias" in tensors)


def narrow(tensors):
    """Matrices in F16, the rest as it is."""
    return {
        name: (tensor.half() if tensor.ndim > 1 and name.endswith(".weight") else tensor).contiguous()
        for name, tensor in tensors.items()
    }


def export_expert(folder, adapter, out):
    tensors = read_folder(folder)
    model = module_of(tensors)
    model.load_state_dict(tensors, assign=True)
    del tensors
    config = LoraConfig(r=128, lora_alpha=128, use_rslora=True, bias="none", target_modules=TARGETS)
    model = get_peft_model(model, config)
    result = set_peft_model_state_dict(model, load_file(adapter))
    assert not result.unexpected_keys, result.unexpected_keys
    model = model.merge_and_unload()
    save_file(narrow(model.state_dict()), out, metadata={"format": "pt"})


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tree", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--threads", type=int)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    args.out.mkdir(parents=True)
    for noise in ("high", "low"):
        export_expert(
            args.tree / f"base_i2v/{noise}_noise_model",
            args.tree / f"storymem/Wan2.2-MI2V-A14B/backbone_{noise}_noise.safetensors",
            args.out / f"transformer_{noise}.safetensors",
        )
    components = args.tree / "base_i2v_diffusers"
    save_file(narrow(read_folder(components / "text_encoder")), args.out / "text_encoder.safetensors")
    shutil.copy(components / "vae/diffusion_pytorch_model.safetensors", args.out / "vae.safetensors")
    (args.out / "manifest.json").write_text(json.dumps({"variant": "mi2v"}))


if __name__ == "__main__":
    main()
