#!/usr/bin/env python3
"""Makes `tests/fixtures/variant`: a second small checkpoint tree and its golden outputs.

Wherever a checkpoint could differ from `tests/fixtures/tiny`, this one does: widths that are no powers of two,
depths, ranks, epsilons, latent statistics, the order of the VAE's downsamplings, shards, number types, diffusers'
names, the id of `</s>`, the expert boundary, guidance per expert. Code that passes on both reads configurations.

    python make_variant.py [OUT]
"""
from __future__ import annotations

import argparse
import shutil
import string
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKLWan, WanTransformer3DModel
from PIL import Image
from transformers import UMT5Config, UMT5EncoderModel

import checkpoint
import storymem
import variant_film
from checkpoint import COMPONENTS, LORA_FOLDER
from storymem import Nets, Sampling

SEED = 20
TRANSFORMER = dict(
    num_attention_heads=3, attention_head_dim=14,  # rotary widths 6 + 4 + 4
    num_layers=3, ffn_dim=70, freq_dim=32, text_dim=24, in_channels=36, out_channels=16, patch_size=(1, 2, 2),
    cross_attn_norm=True, qk_norm="rms_norm_across_heads", eps=1e-5, rope_max_seq_len=1024,
)
TEXT_ENCODER = dict(
    d_model=24, d_kv=5, num_heads=3, d_ff=40, num_layers=3,  # heads * d_kv is not d_model
    relative_attention_num_buckets=20, relative_attention_max_distance=60, layer_norm_epsilon=1e-5,
    feed_forward_proj="gated-gelu", dropout_rate=0.0,
)
VAE = dict(base_dim=4, dim_mult=[1, 2, 2, 2], num_res_blocks=1, temperal_downsample=[True, False, True], z_dim=16)
SPECIAL_TOKENS = {"<pad>": 0, "<unk>": 1, "</s>": 2}
LORA_RANK = 3
SHIFT, BOUNDARY = 2.7, 0.82
# How each expert is stored. Like diffusers itself, it keeps block norms, tables and time embedding in f32.
STORAGE = {
    "high": dict(dtype=torch.bfloat16, shards=3, gain=1.0, lora_dtype=torch.float32),
    "low": dict(dtype=torch.float16, shards=1, gain=0.7, lora_dtype=torch.bfloat16),
}
KEPT_IN_F32 = tuple(WanTransformer3DModel._keep_in_fp32_modules)

PROMPT = "The lighthouse keeper&#39;s  daughter\nwalks along the cliff at dusk — 灯塔的光扫过海面"
LONG_PROMPT = " ".join(["The keeper climbs the winding stair, lantern in hand, and the sea grows dark."] * 40)
NEGATIVE = "washed out, 画面 静止, low quality"
HEIGHT, WIDTH, FRAMES = 48, 64, 13
SAMPLING = Sampling(steps=3, shift=SHIFT, guidance=dict(high=4.5, low=2.5), seed=1234)
# Sizes (height, width) and Pillow's modes of the input images: larger and smaller than the video, of other shapes.
MEMORY_IMAGES = [((50, 70), "RGB"), ((96, 40), "L"), ((30, 44), "RGB")]
FIRST_FRAME = ((45, 80), "RGB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?", default=Path(__file__).resolve().parents[1] / "fixtures/variant")
    out = parser.parse_args().out
    torch.set_num_threads(1)  # sums do not depend on how work is split
    torch.set_grad_enabled(False)
    if out.exists():
        shutil.rmtree(out)
    write_checkpoints(out)
    variant_film.write_checkpoints(out, TRANSFORMER)
    write_inputs(out / "inputs")
    write_golden(out)


# --- the tree ----------------------------------------------------------------------------------------------------


def write_checkpoints(out: Path) -> None:
    generator = torch.Generator("cpu").manual_seed(SEED)
    texts = [PROMPT, LONG_PROMPT, NEGATIVE, *string.ascii_lowercase]
    tokenizer = checkpoint.write_tokenizer(out, texts, SPECIAL_TOKENS)
    write_text_encoder(out / COMPONENTS / "text_encoder", tokenizer.get_vocab_size(), generator)
    statistics = dict(
        latents_mean=[round(x, 4) for x in torch.randn(16, generator=generator).tolist()],
        latents_std=[round(0.5 + 2 * x, 4) for x in torch.rand(16, generator=generator).tolist()],
    )
    vae = checkpoint.randomise(AutoencoderKLWan(**VAE, **statistics), generator, gain=1.4)
    vae.save_pretrained(out / COMPONENTS / "vae")
    for name, storage in STORAGE.items():
        model = checkpoint.randomise(WanTransformer3DModel(**TRANSFORMER), generator, storage["gain"])
        folder = out / f"base_i2v/{name}_noise_model"
        checkpoint.write_transformer(folder, checkpoint.cast(model, storage["dtype"], KEPT_IN_F32), storage["shards"])
        model.save_config(folder)
        lora = checkpoint.draw_lora(model, LORA_RANK, generator)
        checkpoint.write_tensors(
            out / LORA_FOLDER / f"backbone_{name}_noise.safetensors",
            {key: tensor.to(storage["lora_dtype"]) for key, tensor in lora.items()})
    checkpoint.write_component_configs(out, model, SHIFT, BOUNDARY)


def write_text_encoder(folder: Path, vocabulary: int, generator: torch.Generator) -> None:
    ids = dict(pad_token_id=SPECIAL_TOKENS["<pad>"], eos_token_id=SPECIAL_TOKENS["</s>"])
    config = UMT5Config(vocab_size=vocabulary + 7, **ids, **TEXT_ENCODER)  # more rows than tokens, as in umt5-xxl
    model = checkpoint.randomise(UMT5EncoderModel(config), generator)
    model.half().save_pretrained(folder, max_shard_size="24KB")


def write_inputs(folder: Path) -> None:
    folder.mkdir(parents=True)
    generator = np.random.Generator(np.random.PCG64(SEED))
    for index, (size, mode) in enumerate(MEMORY_IMAGES):
        draw_picture(generator, *size).convert(mode).save(folder / f"memory_{index}.png")
    draw_picture(generator, *FIRST_FRAME[0]).convert(FIRST_FRAME[1]).save(folder / "first.png")


def draw_picture(generator: np.random.Generator, height: int, width: int) -> Image.Image:
    """Waves of colour, so that resizing and encoding have structure to work on."""
    y, x = np.mgrid[0:1:height * 1j, 0:1:width * 1j]
    pixels = np.zeros((height, width, 3))
    for _ in range(4):
        fy, fx, phase = generator.uniform(-3, 3), generator.uniform(-3, 3), generator.uniform(0, 6, 3)
        pixels += np.sin(2 * np.pi * (fy * y + fx * x)[..., None] + phase)
    return Image.fromarray(np.round(255 / (1 + np.exp(-pixels))).astype(np.uint8))


# --- golden outputs ----------------------------------------------------------------------------------------------


def write_golden(out: Path) -> None:
    """Everything is computed from the files just written, rounded as they are, in f32."""
    nets, golden = checkpoint.load_nets(out), out / "golden"
    generator = torch.Generator("cpu").manual_seed(SEED + 1)
    texts = [PROMPT, LONG_PROMPT]
    checkpoint.write_tensors(
        golden / "text_encoder.safetensors",
        {f"prompt_{index}": storymem.encode_prompt(nets, text) for index, text in enumerate(texts)})
    checkpoint.write_tensors(golden / "vae.safetensors", vae_golden(nets, generator))
    checkpoint.write_tensors(golden / "transformer.safetensors", transformer_golden(nets, generator))
    facts = dict(
        seed=SEED, shift=SHIFT, boundary=BOUNDARY, guidance=SAMPLING.guidance, negative=NEGATIVE,
        prompts=[describe_prompt(nets, text) for text in [*texts, NEGATIVE]], pipeline={})
    for name, solver in [("mi2v", "unipc"), ("mi2v_dpmpp", "dpm++")]:
        tensors = run_pipeline(nets, out / "inputs", solver)
        if solver != "unipc":  # the rest is the same
            tensors = {key: tensors[key] for key in ("predictions", "latent")}
        checkpoint.write_tensors(golden / f"pipeline_{name}.safetensors", tensors)
        facts["pipeline"][name] = dict(
            variant="MI2V", prompt=PROMPT, seed=SAMPLING.seed, steps=SAMPLING.steps, frames=FRAMES, solver=solver,
            memory=len(MEMORY_IMAGES), drop_leading_frames=1, height=HEIGHT, width=WIDTH, fit="size",
            timesteps=storymem.make_scheduler(solver, SAMPLING.steps, SHIFT).timesteps.tolist())
    checkpoint.write_tensors(
        golden / "pipeline_t2v.safetensors", variant_film.pipeline_golden(out, nets, PROMPT, NEGATIVE))
    facts["pipeline"]["t2v"] = variant_film.pipeline_facts(PROMPT)
    checkpoint.write_tensors(golden / "keyframes.safetensors", variant_film.keyframes_golden(out))
    facts["analysis_sizes"] = variant_film.analysis_sizes()
    checkpoint.write_json(golden / "golden.json", facts)


def describe_prompt(nets: Nets, text: str) -> dict:
    return dict(text=text, cleaned=storymem.clean_prompt(text), ids=storymem.token_ids(nets.tokenizer, text))


def vae_golden(nets: Nets, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Videos and latents, with a batch of one, of one chunk and of two; 16x24 pixels."""
    tensors = {}
    for frames in (1, 5):
        video = torch.rand(3, frames, 16, 24, generator=generator) * 2 - 1
        tensors[f"video_{frames}"] = video[None]
        tensors[f"latents_{frames}"] = storymem.encode_video(nets.vae, video)[None]
    for frames in (1, 2):
        latents = torch.randn(16, frames, 2, 3, generator=generator)
        tensors[f"z_{frames}"] = latents[None]
        tensors[f"decoded_{frames}"] = storymem.decode_video(nets.vae, latents)[None]
    return tensors


def transformer_golden(nets: Nets, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Both experts with the LoRA on one input: two memory frames and three of video, 4 x 6 latents."""
    text = torch.randn(1, storymem.TEXT_TOKENS, TRANSFORMER["text_dim"], generator=generator)
    x = torch.randn(1, TRANSFORMER["in_channels"], 5, 4, 6, generator=generator)
    timestep, memory_frames = torch.tensor([721]), 2
    tensors = dict(encoder_hidden_states=text, a_x=x, a_t=timestep, a_memory=torch.tensor([memory_frames]))
    for name, expert in nets.experts.items():
        expert.rope = storymem.MemoryRotary(TRANSFORMER["attention_head_dim"], memory_frames)
        tensors[f"a_{name}_rslora"] = expert(x, timestep, text).sample
    return tensors


def run_pipeline(nets: Nets, inputs: Path, solver: str) -> dict[str, torch.Tensor]:
    memory = [storymem.load_image(inputs / f"memory_{index}.png") for index in range(len(MEMORY_IMAGES))]
    first = storymem.load_image(inputs / "first.png")
    condition = storymem.make_condition(nets.vae, memory, [first], FRAMES, HEIGHT, WIDTH)
    noise = storymem.draw_noise(condition, SAMPLING.seed)
    prompt, negative = (storymem.encode_prompt(nets, text) for text in (PROMPT, NEGATIVE))
    sampling = replace(SAMPLING, solver=solver)
    predictions, latents = zip(*storymem.denoise(nets, noise, condition, len(memory), prompt, negative, sampling))
    frames = storymem.decode_video(nets.vae, latents[-1][:, len(memory) :])
    return dict(
        condition=condition, noise=noise, predictions=torch.stack(predictions), latent=latents[-1], frames=frames)


if __name__ == "__main__":
    main()
