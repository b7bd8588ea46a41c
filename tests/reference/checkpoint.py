"""Checkpoint trees with random weights, in the layout of the downloads that users have.

    base_i2v_diffusers/                       tokenizer, text encoder, VAE, configurations (diffusers)
    base_i2v/{high,low}_noise_model/          the two experts
    storymem/Wan2.2-MI2V-A14B/backbone_{high,low}_noise.safetensors       LoRA, named as PEFT does
"""
from __future__ import annotations

import json
import math
import re
from pathlib import Path

import torch
from diffusers import AutoencoderKLWan, WanTransformer3DModel
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from torch import Tensor, nn
from transformers import UMT5EncoderModel

from storymem import TEXT_TOKENS, Nets

COMPONENTS = "base_i2v_diffusers"
LORA_FOLDER = "storymem/Wan2.2-MI2V-A14B"
STEM = "diffusion_pytorch_model"

# Parts of diffusers' names and what Wan's own checkpoints call them.
WAN_NAMES = {
    "condition_embedder.time_embedder.linear_1": "time_embedding.0",
    "condition_embedder.time_embedder.linear_2": "time_embedding.2",
    "condition_embedder.text_embedder.linear_1": "text_embedding.0",
    "condition_embedder.text_embedder.linear_2": "text_embedding.2",
    "condition_embedder.time_proj": "time_projection.1",
    "attn1.": "self_attn.",
    "attn2.": "cross_attn.",
    "to_out.0.": "o.",
    "to_": "",
    "ffn.net.0.proj": "ffn.0",
    "ffn.net.2": "ffn.2",
    "norm2": "norm3",
    "proj_out": "head.head",
}
LORA_TARGETS = re.compile(r"blocks\.\d+\.((self|cross)_attn\.[qkvo]|ffn\.[02])\.weight")


def wan_name(name: str) -> str:
    """Wan's own name for a parameter of `WanTransformer3DModel`."""
    for theirs, wans in WAN_NAMES.items():
        name = name.replace(theirs, wans)
    return name.replace("scale_shift_table", "modulation" if name.startswith("blocks.") else "head.modulation")


# --- weights -----------------------------------------------------------------------------------------------------


def randomise(module: nn.Module, generator: torch.Generator, gain: float = 1.0) -> nn.Module:
    """Draws every parameter so that activations keep about unit scale through any depth, and no norm is trivial."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if "norm" in name and name.endswith("weight") or name.endswith("gamma"):
                parameter.copy_(1 + 0.2 * noise)
            elif "shared" in name or "embed_tokens" in name or "relative_attention_bias" in name:
                parameter.copy_(noise)
            elif "scale_shift_table" in name:
                parameter.copy_(0.3 * noise)
            elif parameter.ndim > 1:
                parameter.copy_(noise * gain / math.sqrt(parameter[0].numel()))
            else:
                parameter.copy_(0.1 * noise)
    return module.eval()


def cast(module: nn.Module, dtype: torch.dtype, keep: tuple[str, ...] = ()) -> dict[str, Tensor]:
    """The module's state in `dtype`, but in f32 where a name holds one of `keep`."""
    return {
        name: tensor.to(torch.float32 if any(part in name for part in keep) else dtype)
        for name, tensor in module.state_dict().items()
    }


def draw_lora(model: WanTransformer3DModel, rank: int, generator: torch.Generator) -> dict[str, Tensor]:
    """A pair for each of the ten linear layers of every block, named as PEFT names them in Wan's own model."""
    pairs = {}
    for name, parameter in model.named_parameters():
        if LORA_TARGETS.fullmatch(wan_name(name)):
            outputs, inputs = parameter.shape
            stem = lora_stem(name)
            pairs[f"{stem}.lora_A.weight"] = torch.randn(rank, inputs, generator=generator) / math.sqrt(inputs)
            pairs[f"{stem}.lora_B.weight"] = torch.randn(outputs, rank, generator=generator) * 0.3 / rank
    return pairs


def merge_lora(model: WanTransformer3DModel, pairs: dict[str, Tensor]) -> None:
    """W += alpha / sqrt(rank) * B A, where alpha = rank: the rank-stabilised scale of StoryMem's adapters."""
    merged = 0
    for name, parameter in model.named_parameters():
        stem = lora_stem(name)
        if f"{stem}.lora_A.weight" not in pairs:
            continue
        down, up = (pairs[f"{stem}.lora_{half}.weight"].float() for half in "AB")
        rank = down.shape[0]
        with torch.no_grad():
            parameter += rank / math.sqrt(rank) * (up @ down)
        merged += 1
    assert 2 * merged == len(pairs), f"{merged} pairs merged, {len(pairs) / 2:g} given"


def lora_stem(name: str) -> str:
    return "base_model.model." + wan_name(name).removesuffix(".weight")


# --- writing -----------------------------------------------------------------------------------------------------


def write_json(path: Path, content: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)


def write_transformer(folder: Path, state: dict[str, Tensor], shards: int) -> None:
    """One file, or as many shards as asked for with their index."""
    if shards == 1:
        write_tensors(folder / f"{STEM}.safetensors", state)
        return
    names, weight_map = sorted(state), {}
    for number in range(shards):
        file = f"{STEM}-{number + 1:05d}-of-{shards:05d}.safetensors"
        part = names[number * len(names) // shards : (number + 1) * len(names) // shards]
        write_tensors(folder / file, {name: state[name] for name in part})
        weight_map |= {name: file for name in part}
    size = sum(tensor.nbytes for tensor in state.values())
    write_json(folder / f"{STEM}.safetensors.index.json", dict(metadata=dict(total_size=size), weight_map=weight_map))


def write_component_configs(root: Path, model: WanTransformer3DModel, shift: float, boundary: float) -> None:
    """What a diffusers download holds besides the nets."""
    folder = root / COMPONENTS
    for name in ("transformer", "transformer_2"):
        model.save_config(folder / name)
    write_json(folder / "scheduler/scheduler_config.json", dict(
        _class_name="UniPCMultistepScheduler", prediction_type="flow_prediction", use_flow_sigmas=True,
        flow_shift=shift, num_train_timesteps=1000, solver_order=2, solver_type="bh2"))
    write_json(folder / "model_index.json", dict(
        _class_name="WanImageToVideoPipeline", boundary_ratio=boundary,
        scheduler=["diffusers", "UniPCMultistepScheduler"], text_encoder=["transformers", "UMT5EncoderModel"],
        tokenizer=["transformers", "T5TokenizerFast"], transformer=["diffusers", "WanTransformer3DModel"],
        transformer_2=["diffusers", "WanTransformer3DModel"], vae=["diffusers", "AutoencoderKLWan"]))


def write_tokenizer(root: Path, texts: list[str], specials: dict[str, int]) -> Tokenizer:
    """A Unigram tokenizer of T5's shape: metaspace, end-of-sequence appended.

    The pieces are the words of `texts`, halves of the longer ones, and single characters, scored by how often they
    occur. They are listed here, not trained: what the trainer gives depends on the order of a hash table.
    """
    counts: dict[str, int] = {}
    for word in (word for text in texts for word in text.split()):
        half = len(word) // 2
        for piece in {"▁", "▁" + word, *word, *((word[:half], word[half:]) if len(word) > 5 else ())}:
            counts[piece] = counts.get(piece, 0) + 1
    total = sum(counts.values())
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    vocabulary = [(special, 0.0) for special in sorted(specials, key=specials.get)]
    vocabulary += [(piece, round(math.log(count / total), 4)) for piece, count in ranked]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=specials["<unk>"], byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(" {2,}", " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", specials["</s>"])])
    tokenizer.add_special_tokens(sorted(specials, key=specials.get))
    folder = root / COMPONENTS / "tokenizer"
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    write_json(folder / "tokenizer_config.json", dict(
        tokenizer_class="T5TokenizerFast", pad_token="<pad>", eos_token="</s>", unk_token="<unk>",
        model_max_length=TEXT_TOKENS))
    return tokenizer


# --- reading -----------------------------------------------------------------------------------------------------


def load_nets(root: Path, lora_folder: str | None = LORA_FOLDER) -> Nets:
    """The nets of a tree in f32, the LoRA merged in: what is computed with them is computed from the files' values."""
    components = root / COMPONENTS
    experts = {}
    for name in ("high", "low"):
        experts[name] = load_transformer(components / "transformer", root / f"base_i2v/{name}_noise_model")
        if lora_folder:
            merge_lora(experts[name], load_file(root / lora_folder / f"backbone_{name}_noise.safetensors"))
    return Nets(
        tokenizer=Tokenizer.from_file(str(components / "tokenizer/tokenizer.json")),
        text_encoder=UMT5EncoderModel.from_pretrained(components / "text_encoder", dtype=torch.float32),
        vae=AutoencoderKLWan.from_pretrained(components / "vae", torch_dtype=torch.float32),
        experts=experts,
        boundary=json.loads((components / "model_index.json").read_text())["boundary_ratio"],
    )


def load_transformer(config: Path, folder: Path) -> WanTransformer3DModel:
    """From files with Wan's own names or with diffusers', of any type and number."""
    model = WanTransformer3DModel.from_config(WanTransformer3DModel.load_config(config))
    names = {wan_name(name): name for name in model.state_dict()}
    state = {}
    for file in sorted(folder.glob("*.safetensors")):
        state |= {names.get(name, name): tensor.float() for name, tensor in load_file(file).items()}
    model.load_state_dict(state)
    return model.eval()
