#!/usr/bin/env python3
"""Writes tests/fixtures/images: small images of every kind, and what Pillow makes of their pixels.

    pip install pillow numpy && python tests/reference/make_images.py

`expected.json` holds, by file name, width, height and the RGB values, row by row, after `ImageOps.exif_transpose`,
composition over black and `convert("RGB")`, and how far a value may be off: JPEG decoders round differently.
"""
import json
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

OUT = Path(__file__).parent.parent / "fixtures" / "images"
OUT.mkdir(parents=True, exist_ok=True)
EXPECTED = {}


def gradient(w, h, channels):
    """Smooth, so that JPEG keeps it; no two channels alike."""
    y, x = np.mgrid[0:h, 0:w]
    planes = [x * 255 / (w - 1), y * 255 / (h - 1), 255 - (x + y) * 255 / (w + h - 2), 64 + (x * y) * 128 / ((w - 1) * (h - 1))]
    return np.stack(planes[:channels], -1).round().astype(np.uint8)


def rgb(image):
    image = ImageOps.exif_transpose(image)
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        rgba = np.array(image.convert("RGBA")).astype(int)
        return ((rgba[..., :3] * rgba[..., 3:] + 127) // 255).astype(np.uint8)
    return np.array(image.convert("RGB"))


def expect(name, tolerance, values=None):
    with Image.open(OUT / name) as image:
        values = rgb(image) if values is None else values
    h, w, _ = values.shape
    EXPECTED[name] = dict(width=w, height=h, tolerance=tolerance, rgb=values.flatten().tolist())


def save(name, image, tolerance=0, **options):
    image.save(OUT / name, **options)
    expect(name, tolerance)


def png16(name, samples, color_type):
    """A 16-bit PNG, which Pillow can't write in all kinds; the high bytes are what it reads."""
    h, w = samples.shape[:2]
    raw = b"".join(b"\0" + row.astype(">u2").tobytes() for row in samples)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", w, h, 16, color_type, 0, 0, 0)
    (OUT / name).write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b""))
    high = (samples.reshape(h, w, -1) >> 8).astype(int)
    colours, alpha = (high[..., :-1], high[..., -1:]) if color_type in (4, 6) else (high, np.full((h, w, 1), 255))
    colours = np.broadcast_to((colours * alpha + 127) // 255, (h, w, 3))
    expect(name, 0, colours.astype(np.uint8))


W, H = 24, 16
colour, with_alpha = Image.fromarray(gradient(W, H, 3)), Image.fromarray(gradient(W, H, 4))
save("rgb.png", colour)
save("rgba.png", with_alpha)
save("grey.png", colour.convert("L"))
save("grey_alpha.png", with_alpha.convert("LA"))
save("bilevel.png", colour.convert("1"))
save("palette.png", colour.convert("P", palette=Image.Palette.ADAPTIVE, colors=13))
save("palette_transparent.png", colour.convert("P", palette=Image.Palette.ADAPTIVE, colors=5), transparency=2)
save("rgb_transparent.png", colour, transparency=tuple(gradient(W, H, 3)[3, 4].tolist()))
wide = gradient(W, H, 4).astype(np.uint16) * 257 - np.arange(W * H, dtype=np.uint16).reshape(H, W, 1) % 200
png16("grey16.png", wide[..., 0], 0)
png16("rgb16.png", wide[..., :3], 2)
png16("grey_alpha16.png", wide[..., [0, 3]], 4)
png16("rgba16.png", wide, 6)

save("rgb.jpg", colour, 3, quality=95, subsampling=0)
save("rgb_420.jpg", colour, 6, quality=95, subsampling=2)
save("progressive.jpg", colour, 3, quality=95, subsampling=0, progressive=True)
save("grey.jpg", colour.convert("L"), 2, quality=95)
# Stored inverted, as Adobe does and as Pillow reads any CMYK JPEG.
save("cmyk.jpg", Image.fromarray(gradient(W, H, 4), "CMYK"), 3, quality=95)
cmyk = (OUT / "cmyk.jpg").read_bytes()
adobe = cmyk.index(b"\xff\xee\x00\x0eAdobe")
(OUT / "cmyk_no_adobe.jpg").write_bytes(cmyk[:adobe] + cmyk[adobe + 16:])
expect("cmyk_no_adobe.jpg", 3)
# The last byte of the Adobe segment says that the same components are YCC and K.
(OUT / "ycck.jpg").write_bytes(cmyk[:adobe + 15] + b"\2" + cmyk[adobe + 16:])
expect("ycck.jpg", 4)
save("rgb_keep.jpg", colour, 3, quality=95, keep_rgb=True)

for orientation in range(1, 9):
    exif = Image.Exif()
    exif[0x0112] = orientation
    save(f"orientation_{orientation}.jpg", colour, 3, quality=95, subsampling=0, exif=exif)
exif[0x0112] = 6
save("orientation_6.png", colour, exif=exif)
save("orientation_6.webp", colour, lossless=True, exif=exif)

save("lossless.webp", colour, lossless=True)
save("lossless_alpha.webp", with_alpha, lossless=True, exact=True)
save("lossy.webp", colour, 6, quality=95)
save("animated.webp", colour, lossless=True, save_all=True, append_images=[colour.transpose(Image.Transpose.ROTATE_180)])

(OUT / "expected.json").write_text(
    "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in EXPECTED.items()) + "\n}\n")
