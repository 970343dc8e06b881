#!/usr/bin/env python3
"""Writes images.json: what Pillow and transformers' ViTImageProcessor (its Pillow backend) make of small images.

    files        the bytes of PNG and JPEG files, in base64
    decoded      the pixels of a file as Pillow's convert() gives them, in hexadecimal
    resized      the same after Pillow's resize()
    processed    a preprocessor_config.json, and the pixel_values of a file
    changed      the pixels of a file after an operation of torchvision's automatic augmentation on Pillow's images

    generate.py            writes images.json if it is missing or differs
    generate.py --check    makes it again and compares; exit status 1 where it differs
"""

import base64
import io
import sys
from pathlib import Path

import numpy
import PIL
import transformers
from PIL import Image, ImageEnhance, ImageOps
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import json_oracle

FILE = Path(__file__).resolve().parent / "images.json"


def picture(height, width, channels):
    """Waves with edges in them, different in each channel."""
    y, x, c = numpy.mgrid[0:height, 0:width, 0:channels]
    waves = 127 + 90 * numpy.sin(0.9 * x + 0.4 * y + 2 * c) + 37 * ((3 * x + 5 * y + c) % 7 < 3)
    return numpy.clip(waves, 0, 255).astype(numpy.uint8)


def encoded(image, format, **options):
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def images():
    rgb = Image.fromarray(picture(13, 17, 3))
    grey = Image.fromarray(picture(13, 17, 1)[..., 0])
    rgba = Image.fromarray(picture(11, 10, 4), "RGBA")
    return {
        "rgb.png": encoded(rgb, "PNG"),
        "tall.png": encoded(Image.fromarray(picture(29, 12, 3)), "PNG"),
        "grey.png": encoded(grey, "PNG"),
        "faint.png": encoded(Image.fromarray((picture(24, 25, 3) * 0.6 + 40).astype(numpy.uint8)), "PNG"),
        "grey_alpha.png": encoded(rgba.convert("LA"), "PNG"),
        "bits.png": encoded(grey.point(lambda v: 255 * (v > 120)).convert("1"), "PNG"),
        "palette.png": encoded(rgb.quantize(19), "PNG"),
        "clear_palette.png": encoded(rgb.quantize(7), "PNG", transparency=3),
        "rgba.png": encoded(rgba, "PNG"),
        "rgb.jpeg": encoded(rgb, "JPEG", quality=90),
        "progressive.jpeg": encoded(rgb, "JPEG", quality=70, progressive=True, subsampling=2),
        "grey.jpeg": encoded(grey, "JPEG"),
        "cmyk.jpeg": encoded(rgb.convert("CMYK"), "JPEG", quality=90),
    }


def opened(data):
    return Image.open(io.BytesIO(data))


def pixels(image):
    return image.tobytes().hex()


def moved(image, matrix):
    """What torchvision's affine() does with a Pillow image."""
    return image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.NEAREST)


# By the names of torchvision, with magnitudes.
OPERATIONS = {
    "Identity": (lambda image, _: image, [0]),
    "ShearX": (lambda image, m: moved(image, (1, m, 0, 0, 1, 0)), [0.09, -0.3]),
    "ShearY": (lambda image, m: moved(image, (1, 0, 0, m, 1, 0)), [0.2, -0.09]),
    "TranslateX": (lambda image, m: moved(image, (1, 0, -int(m), 0, 1, 0)), [3.4, -7.9]),
    "TranslateY": (lambda image, m: moved(image, (1, 0, 0, 0, 1, -int(m))), [3.4, -7.9]),
    "Rotate": (lambda image, m: image.rotate(m), [9.0, -30.0]),
    "Brightness": (lambda image, m: ImageEnhance.Brightness(image).enhance(1 + m), [0.27, -0.9]),
    "Color": (lambda image, m: ImageEnhance.Color(image).enhance(1 + m), [0.9, -0.27]),
    "Contrast": (lambda image, m: ImageEnhance.Contrast(image).enhance(1 + m), [0.9, -0.27]),
    "Sharpness": (lambda image, m: ImageEnhance.Sharpness(image).enhance(1 + m), [0.9, -0.27]),
    "Posterize": (lambda image, m: ImageOps.posterize(image, int(m)), [4, 7]),
    "Solarize": (lambda image, m: ImageOps.solarize(image, m), [170, 178.5]),
    "AutoContrast": (lambda image, _: ImageOps.autocontrast(image), [0]),
    "Equalize": (lambda image, _: ImageOps.equalize(image), [0]),
    "Invert": (lambda image, _: ImageOps.invert(image), [0]),
}


def changed(files):
    results = []
    for number, (name, (operation, magnitudes)) in enumerate(OPERATIONS.items()):
        for file, mode, channels in (("faint.png", "RGB", 3), ("rgb.png", "RGB", 3), ("tall.png", "L", 1)):
            for magnitude in magnitudes[:2 if file == "faint.png" else 1]:
                image = operation(opened(files[file]).convert(mode), magnitude)
                results.append({"file": file, "channels": channels, "operation": number, "name": name,
                                "magnitude": magnitude, "pixels": pixels(image)})
    return results


SIZES = [(5, 4), (8, 8), (13, 20), (31, 17), (1, 1)]  # height, width
CONFIGS = [
    ("rgb.png", 3, {"size": {"height": 8, "width": 8}}),
    ("tall.png", 3, {"size": 9, "resample": 3, "image_mean": [0.485, 0.456, 0.406],
                     "image_std": [0.229, 0.224, 0.225]}),
    ("tall.png", 3, {"size": {"shortest_edge": 7}, "do_center_crop": True, "crop_size": 6, "resample": 1}),
    ("rgb.png", 3, {"size": 7, "default_to_square": False, "do_center_crop": True, "resample": 0,
                    "crop_size": {"height": 9, "width": 5}}),
    ("rgb.png", 3, {"do_resize": False, "do_center_crop": True, "crop_size": {"height": 16, "width": 20}}),
    ("rgb.png", 3, {"do_resize": False, "do_normalize": False, "do_center_crop": True,
                    "crop_size": {"height": 6, "width": 7}}),
    ("rgb.jpeg", 3, {"size": [6, 8], "do_rescale": False, "image_mean": 120.0, "image_std": 60.0}),
    ("palette.png", 3, {"size": {"height": 6, "width": 6}, "do_convert_rgb": True, "resample": 5}),
    ("rgba.png", 3, {"size": {"height": 6, "width": 6}, "do_convert_rgb": True, "resample": 4}),
    ("grey.png", 1, {"size": {"height": 6, "width": 6}, "image_mean": [0.3], "image_std": [0.7],
                     "rescale_factor": 0.01}),
]


def processed(data, channels, config):
    values = ViTImageProcessorPil(**config)(opened(data), return_tensors="np")["pixel_values"][0]
    assert values.shape[0] == channels
    return [[round(float(value), 6) for value in channel.flatten()] for channel in values]


def make():
    files = images()
    return {
        "transformers": transformers.__version__,
        "pillow": PIL.__version__,
        "files": {name: base64.b64encode(data).decode() for name, data in files.items()},
        "decoded": [{"file": name, "channels": channels, "pixels": pixels(opened(data).convert(mode))}
                    for name, data in files.items() for channels, mode in ((1, "L"), (3, "RGB"))],
        "resized": [{"file": name, "filter": number, "height": height, "width": width,
                     "pixels": pixels(opened(files[name]).resize((width, height), number))}
                    for name in ("rgb.png", "tall.png") for number in range(6) for height, width in SIZES],
        "processed": [{"file": name, "channels": channels, "config": config,
                       "values": processed(files[name], channels, config)} for name, channels, config in CONFIGS],
        "changed": changed(files),
    }


if __name__ == "__main__":
    sys.exit(json_oracle.main(FILE, make, 1e-5, "Decoding and processing of images"))
