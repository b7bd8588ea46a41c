"""What an independent decoder (FFmpeg, through PyAV) sees in an MP4, as JSON.

usage: check_mp4.py VIDEO [--reference RGB]

RGB is a file of raw `[frames, height, width, 3]` bytes; with it, the peak signal-to-noise ratio of the worst frame is
given for luma and for RGB.
"""

import argparse
import json
from fractions import Fraction

import av
import numpy as np

BT709_LUMA = np.array([0.2126, 0.7152, 0.0722])


def psnr(a, b):
    error = np.mean((a.astype(np.float64) - b) ** 2)
    return float("inf") if error == 0 else float(10 * np.log10(255**2 / error))


def luma(frame):
    plane = frame.planes[0]
    return np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[: frame.height, : frame.width]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("video")
    parser.add_argument("--reference")
    args = parser.parse_args()

    with av.open(args.video) as container:
        stream = container.streams.video[0]
        context = stream.codec_context
        frames = list(container.decode(stream))
        rgb = [frame.to_ndarray(format="rgb24") for frame in frames]
        first = frames[0]
        facts = {
            "codec": context.name,
            "codec_tag": context.codec_tag,
            "profile": context.profile,
            "reordered": context.has_b_frames,
            "width": context.width,
            "height": context.height,
            "pix_fmt": context.pix_fmt,
            "color_range": int(context.color_range),
            "colorspace": int(context.colorspace),
            "color_primaries": int(context.color_primaries),
            "color_trc": int(context.color_trc),
            "frame_colorspace": int(first.colorspace),
            "rate": str(stream.average_rate),
            "duration": str(stream.duration * stream.time_base),
            "times": [str(Fraction(frame.pts) * frame.time_base) for frame in frames],
            "key_frames": [index for index, frame in enumerate(frames) if frame.key_frame],
            "frames": len(frames),
            "mean_rgb": [image.reshape(-1, 3).mean(axis=0).tolist() for image in rgb],
            # Pixels of the first frame on a coarse grid: enough to tell colours and places.
            "grid": rgb[0][4::8, 4::8].tolist(),
        }
    if args.reference:
        reference = np.fromfile(args.reference, np.uint8).reshape(len(rgb), *rgb[0].shape)
        pairs = list(zip(frames, rgb, reference))
        facts["psnr_luma"] = min(psnr(luma(f), 16 + 219 / 255 * (r @ BT709_LUMA)) for f, _, r in pairs)
        facts["psnr_rgb"] = min(psnr(image, r) for _, image, r in pairs)
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
