"""StoryMem's inference, written over the nets of diffusers and transformers.

Stock diffusers has Wan's transformer, autoencoder and solvers, but not what StoryMem adds: memory frames before the
video on the time axis, negative and strided rotary positions for them, its own noise schedule, one expert per range
of timesteps with its own guidance, and a condition of memory and known frames. That is what this module holds, as plain
functions that the fixtures and the benchmark share.

Shapes: image [3, H, W] and video [3, F, H, W] in [-1, 1]; latents [16, T, H/8, W/8], where T counts the M memory
frames, which come first, and the (F - 1) / 4 + 1 latent frames of the video.
"""
from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

import ftfy
import numpy as np
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKLWan, DPMSolverMultistepScheduler, UniPCMultistepScheduler, WanTransformer3DModel
from PIL import Image
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import UMT5EncoderModel

TEXT_TOKENS = 512  # what cross-attention sees, whatever the length of the prompt
MEMORY_STRIDE = 5  # distance of memory frames on the rotary time axis, and of the last one from the video
ROTARY_BASE = 10_000.0


@dataclass
class Nets:
    """The nets of one model; `experts` maps "high" and "low" to transformers with the LoRA already merged in."""

    tokenizer: Tokenizer
    text_encoder: UMT5EncoderModel
    vae: AutoencoderKLWan
    experts: dict[str, WanTransformer3DModel]
    boundary: float  # the high-noise expert serves timesteps from 1000 * boundary on


@dataclass
class Sampling:
    """The numbers that decide a shot, its size and length apart."""

    steps: int
    shift: float
    guidance: dict[str, float]  # by expert
    seed: int
    solver: str = "unipc"  # or "dpm++"


# --- text --------------------------------------------------------------------------------------------------------


def clean_prompt(text: str) -> str:
    """Mends broken Unicode, resolves HTML entities (doubly escaped ones too), and makes every gap one space."""
    text = ftfy.fix_text(text)
    text = html.unescape(html.unescape(text))
    return re.sub(r"\s+", " ", text.strip())


def token_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """The ids of a prompt, end-of-sequence last; of one that is too long the beginning, end-of-sequence kept."""
    ids = tokenizer.encode(clean_prompt(text)).ids
    return ids if len(ids) <= TEXT_TOKENS else ids[: TEXT_TOKENS - 1] + ids[-1:]


def encode_prompt(nets: Nets, text: str) -> Tensor:
    """[512, d_model]: the encoder's output for the prompt's own tokens, then zeros, which are attended to as well."""
    ids = token_ids(nets.tokenizer, text)
    padding = TEXT_TOKENS - len(ids)
    pad = nets.text_encoder.config.pad_token_id
    attended = torch.tensor([[1] * len(ids) + [0] * padding])
    hidden = nets.text_encoder(torch.tensor([ids + [pad] * padding]), attention_mask=attended).last_hidden_state[0]
    hidden[len(ids) :] = 0
    return hidden


# --- images and latents ------------------------------------------------------------------------------------------


def load_image(path) -> Tensor:
    """An image file as [3, H, W] in [-1, 1]."""
    pixels = np.asarray(Image.open(path).convert("RGB"), dtype=np.float32)
    return torch.from_numpy(pixels / 255).sub(0.5).div(0.5).permute(2, 0, 1)


def stretch(image: Tensor, height: int, width: int) -> Tensor:
    """Bicubic, without antialiasing or clamping, and without keeping the aspect ratio."""
    return F.interpolate(image[None], (height, width), mode="bicubic", align_corners=False)[0]


def encode_video(vae: AutoencoderKLWan, video: Tensor) -> Tensor:
    """[3, F, H, W] to normalised latents [16, (F - 1) / 4 + 1, H/8, W/8]; the mode, nothing is drawn."""
    mean, std = latent_statistics(vae)
    return (vae.encode(video[None]).latent_dist.mode()[0] - mean) / std


def decode_video(vae: AutoencoderKLWan, latents: Tensor) -> Tensor:
    """The way back, clamped to [-1, 1]."""
    mean, std = latent_statistics(vae)
    return vae.decode((latents * std + mean)[None]).sample[0].clamp(-1, 1)


def latent_statistics(vae: AutoencoderKLWan) -> tuple[Tensor, Tensor]:
    mean, std = torch.tensor(vae.config.latents_mean), torch.tensor(vae.config.latents_std)
    return mean[:, None, None, None], std[:, None, None, None]


def make_condition(
    vae: AutoencoderKLWan, memory: list[Tensor], known: list[Tensor], frames: int, height: int, width: int
) -> Tensor:
    """[4 + 16, T, H/8, W/8]: the mask of what is known, above the latents of memory and video.

    `known` are the video's first frames: none (M2V), one (MI2V) or five (MM2V). A memory image is a video of one frame.
    """
    remembered = [encode_video(vae, stretch(image, height, width)[:, None]) for image in memory]
    video = torch.zeros(3, frames, height, width)
    for index, image in enumerate(known):
        video[:, index] = stretch(image, height, width)
    latents = torch.cat([*remembered, encode_video(vae, video)], dim=1)
    mask = torch.zeros(4, *latents.shape[1:])
    mask[:, : len(memory) + (len(known) + 3) // 4] = 1
    return torch.cat([mask, latents])


# --- denoising ---------------------------------------------------------------------------------------------------


class MemoryRotary(nn.Module):
    """Takes the place of `WanTransformer3DModel.rope`: memory frame j of M is at time -5 (M - j), the video at 0, 1, …

    Returns cosines and sines [1, tokens, 1, head_dim], every value twice, as diffusers' attention wants them.
    """

    def __init__(self, head_dim: int, memory_frames: int):
        super().__init__()
        spatial = head_dim // 6 * 2
        self.widths = (head_dim - 2 * spatial, spatial, spatial)  # of time, rows, columns
        self.memory_frames = memory_frames

    def forward(self, latents: Tensor) -> tuple[Tensor, Tensor]:
        frames, rows, columns = latents.shape[2], latents.shape[3] // 2, latents.shape[4] // 2
        behind = torch.arange(-self.memory_frames, 0) * MEMORY_STRIDE
        times = torch.cat([behind, torch.arange(frames - self.memory_frames)])
        grid = torch.meshgrid(times, torch.arange(rows), torch.arange(columns), indexing="ij")
        parts = []
        for width, positions in zip(self.widths, grid):
            exponents = torch.arange(0, width, 2, dtype=torch.float64) / width
            parts.append(positions.flatten()[:, None] / ROTARY_BASE**exponents)
        angles = torch.cat(parts, dim=1).repeat_interleave(2, dim=1)[None, :, None]
        return angles.cos().float(), angles.sin().float()


def make_scheduler(solver: str, steps: int, shift: float):
    """A diffusers solver of order 2 on StoryMem's schedule, whose timesteps are cut to whole numbers."""
    flow = dict(prediction_type="flow_prediction", use_flow_sigmas=True, solver_order=2, lower_order_final=True)
    if solver == "unipc":
        scheduler, highest = UniPCMultistepScheduler(solver_type="bh2", **flow), 0.999
    else:
        scheduler, highest = DPMSolverMultistepScheduler(algorithm_type="dpmsolver++", **flow), 1.0
    linear = highest * (1 - np.arange(steps) / steps)
    sigmas = shift * linear / (1 + (shift - 1) * linear)
    scheduler.set_timesteps(steps)
    scheduler.sigmas = torch.tensor([*sigmas, 0.0], dtype=torch.float32)
    scheduler.timesteps = torch.from_numpy((1000 * sigmas).astype(np.int64))
    scheduler.set_begin_index(0)
    return scheduler


def draw_noise(condition: Tensor, seed: int) -> Tensor:
    """[16, T, H/8, W/8], as torch's CPU generator draws it."""
    return torch.randn(16, *condition.shape[1:], generator=torch.Generator("cpu").manual_seed(seed))


def denoise(
    nets: Nets,
    noise: Tensor,
    condition: Tensor,
    memory_frames: int,
    prompt: Tensor,
    negative: Tensor,
    sampling: Sampling,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields (prediction after guidance, latents after the step), both [16, T, H/8, W/8], for every step."""
    for expert in nets.experts.values():
        expert.rope = MemoryRotary(expert.config.attention_head_dim, memory_frames)
    scheduler = make_scheduler(sampling.solver, sampling.steps, sampling.shift)
    latents = noise
    for timestep in scheduler.timesteps:
        name = "high" if timestep >= 1000 * nets.boundary else "low"
        expert, scale = nets.experts[name], sampling.guidance[name]
        inputs = torch.cat([latents, condition])[None]
        with_prompt, without = (
            expert(inputs, timestep[None], text[None], return_dict=False)[0] for text in (prompt, negative)
        )
        prediction = without + scale * (with_prompt - without)
        latents = scheduler.step(prediction, timestep, latents[None], return_dict=False)[0][0]
        yield prediction[0], latents
