"""What StoryMem's choice of frames to remember computes of a frame (`extract_keyframes.py`).

Frames are [3, H, W] in 8 bits, as they are decoded.
"""
from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import CLIPModel

PATCH = 28  # pixels; a side of an analysed frame is a multiple
LEAST_PIXELS, MOST_PIXELS = 48 * PATCH**2, 256 * PATCH**2
MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


def clip_pixels(frame: Tensor, side: int) -> Tensor:
    """[3, side, side], normalised: squashed bilinearly, without antialiasing and without a crop."""
    square = F.interpolate(frame[None] / 255, (side, side), mode="bilinear", align_corners=False)[0]
    mean, std = (torch.tensor(values)[:, None, None] for values in (MEAN, STD))
    return (square - mean) / std


def embed(clip: CLIPModel, frames: Tensor) -> Tensor:
    """[N, projection_dim] of frames [N, 3, H, W]; not of unit length."""
    pixels = torch.stack([clip_pixels(frame, clip.config.vision_config.image_size) for frame in frames])
    return clip.get_image_features(pixel_values=pixels)


def analysis_size(height: int, width: int) -> tuple[int, int]:
    """The size at which a video of that size is looked at."""
    sides = [max(PATCH, round(side / PATCH) * PATCH) for side in (height, width)]
    pixels = math.prod(sides)
    if pixels > MOST_PIXELS:
        shrink = math.sqrt(height * width / MOST_PIXELS)
        sides = [max(PATCH, math.floor(side / shrink / PATCH) * PATCH) for side in (height, width)]
    elif pixels < LEAST_PIXELS:
        grow = math.sqrt(LEAST_PIXELS / (height * width))
        sides = [math.ceil(side * grow / PATCH) * PATCH for side in (height, width)]
    return sides[0], sides[1]


def resize_smooth(frame: Tensor, height: int, width: int) -> Tensor:
    """Bilinear and antialiased, in whole numbers: what torchvision makes of a frame in 8 bits."""
    return F.interpolate(frame[None], (height, width), mode="bilinear", align_corners=False, antialias=True)[0]
