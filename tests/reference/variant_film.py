"""What a film takes besides shots with memory: experts that work from text alone, and CLIP, in the variant tree.

    base_t2v/{transformer,transformer_2}/     the experts, in diffusers' layout (F16)
    clip/                                     a whole CLIP, of which the vision tower is used (F16)
"""
from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from diffusers import WanTransformer3DModel
from torch import Tensor
from transformers import CLIPConfig, CLIPModel

import checkpoint
import memory
import storymem
from storymem import Nets, Sampling

SEED = 40
EXPERTS = {"high": "base_t2v/transformer", "low": "base_t2v/transformer_2"}
BOUNDARY = 0.875  # Wan2.2-T2V-A14B's
HEIGHT, WIDTH, FRAMES = 32, 48, 5
# Three steps, of which the last is the low-noise expert's.
SAMPLING = Sampling(steps=3, shift=12.0, guidance=dict(high=4.0, low=3.0), seed=77)
VISION = dict(
    hidden_size=24, intermediate_size=40, num_hidden_layers=3, num_attention_heads=3, image_size=48, patch_size=8,
    layer_norm_eps=1e-6, hidden_act="quick_gelu",
)
TEXT = dict(
    hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1, vocab_size=16,
    max_position_embeddings=8, bos_token_id=0, eos_token_id=1, pad_token_id=1,
)
PROJECTION = 10
# Sizes (height, width) of frames, and what each is resized to besides its analysis size.
SMOOTH = {(33, 50): (28, 84), (97, 61): (40, 24), (20, 30): (61, 30)}
VIDEO_SIZES = [(480, 832), (832, 480), (720, 1280), (64, 96), (64, 64), (16, 4096), (16, 16), (224, 168), (434, 434)]


def write_checkpoints(out: Path, transformer: dict) -> None:
    """`transformer` is the configuration of the experts with memory."""
    generator = torch.Generator("cpu").manual_seed(SEED)
    for folder in EXPERTS.values():
        model = checkpoint.randomise(WanTransformer3DModel(**transformer | dict(in_channels=16)), generator)
        checkpoint.write_transformer(out / folder, checkpoint.cast(model, torch.float16), shards=1)
        model.save_config(out / folder)
    config = CLIPConfig(vision_config=VISION, text_config=TEXT, projection_dim=PROJECTION)
    clip = checkpoint.randomise(CLIPModel(config), generator, gain=1.5)
    clip.half().save_pretrained(out / "clip")


def pipeline_golden(out: Path, nets: Nets, prompt: str, negative: str) -> dict[str, Tensor]:
    """A shot from text alone; `nets` lend text encoder and autoencoder."""
    experts = {name: checkpoint.load_transformer(out / folder, out / folder) for name, folder in EXPERTS.items()}
    nets = replace(nets, experts=experts, boundary=BOUNDARY)
    no_condition = torch.zeros(0, (FRAMES - 1) // 4 + 1, HEIGHT // 8, WIDTH // 8)  # of no channels
    noise = storymem.draw_noise(no_condition, SAMPLING.seed)
    embeds = [storymem.encode_prompt(nets, text) for text in (prompt, negative)]
    predictions, latents = zip(*storymem.denoise(nets, noise, no_condition, 0, *embeds, SAMPLING))
    frames = storymem.decode_video(nets.vae, latents[-1])
    return dict(noise=noise, predictions=torch.stack(predictions), latent=latents[-1], frames=frames)


def pipeline_facts(prompt: str) -> dict:
    return dict(
        variant="T2V", prompt=prompt, seed=SAMPLING.seed, steps=SAMPLING.steps, shift=SAMPLING.shift,
        guidance=SAMPLING.guidance, frames=FRAMES, memory=0, drop_leading_frames=0, height=HEIGHT, width=WIDTH,
        fit="size", timesteps=storymem.make_scheduler("unipc", SAMPLING.steps, SAMPLING.shift).timesteps.tolist())


def keyframes_golden(out: Path) -> dict[str, Tensor]:
    """Embeddings of frames in 8 bits, and frames resized."""
    generator = torch.Generator("cpu").manual_seed(SEED + 1)
    frames = torch.randint(256, (3, 3, 30, 50), generator=generator, dtype=torch.uint8)
    clip = CLIPModel.from_pretrained(out / "clip", dtype=torch.float32).eval()
    tensors = dict(frames=frames, embeddings=memory.embed(clip, frames))
    for index, (size, smaller) in enumerate(SMOOTH.items()):
        frame = torch.randint(256, (3, *size), generator=generator, dtype=torch.uint8)
        tensors[f"smooth_{index}_of"] = frame
        tensors[f"smooth_{index}"] = memory.resize_smooth(frame, *smaller)
    return tensors


def analysis_sizes() -> list[dict]:
    return [dict(height=h, width=w, analysed=memory.analysis_size(h, w)) for h, w in VIDEO_SIZES]
