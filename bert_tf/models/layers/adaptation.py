"""Adaptations of existing models: LoRA, quantization, and freezing.

Keras does not serialize them for inner layers. Here they are described as JSON, and repeated on a
new model, so that its weights and its optimizer can be loaded.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import keras

from pipelines.common.errors import InputError


def parts(root: keras.layers.Layer, scope: str = "") -> Iterator[tuple[str, keras.layers.Layer]]:
    """Yields the inner layers of this package with their paths in a layer or model."""
    inner = root.layers if isinstance(root, keras.Model) else root.members()
    for part in inner:
        if isinstance(part, keras.layers.Layer) and hasattr(part, "members"):
            path = f"{scope}{part.name}"
            yield path, part
            yield from parts(part, f"{path}/")


def enable_lora(root: keras.Model, rank: int, alpha: float | None, layers: str) -> None:
    """Implements `Encoder.enable_lora`."""
    try:
        re.compile(layers)
    except re.error as error:
        raise InputError(f"layers: {layers!r} is not a regular expression: {error}.") from error
    chosen = {
        path: part
        for path, part in parts(root)
        if hasattr(part, "lora_enabled") and re.search(layers, path)
    }
    if not chosen:
        maps = [path for path, part in parts(root) if hasattr(part, "lora_enabled")]
        raise InputError(
            f"layers: no linear map has a path that matches {layers!r}; the paths are "
            f"{', '.join(maps)}."
        )
    if isinstance(rank, bool) or not isinstance(rank, int) or rank < 1:
        raise InputError(f"rank is {rank!r}; it must be a whole number of 1 or more.")
    if alpha is not None and not (isinstance(alpha, (int, float)) and 0 < alpha < math.inf):
        raise InputError(f"alpha is {alpha!r}; it must be a number above 0, or None.")
    enabled = [path for path, part in chosen.items() if part.lora_enabled]
    if enabled:
        raise InputError(f"{', '.join(enabled)}: LoRA is already enabled, which is possible once.")
    root.trainable = True  # variables added to a frozen layer would be frozen
    for variable in root.variables:
        variable.trainable = False
    for part in chosen.values():
        part.enable_lora(rank, lora_alpha=alpha)


def describe(root: keras.layers.Layer) -> dict[str, Any]:
    """The adaptations of the inner layers of a layer or model, as JSON values."""
    inner = list(parts(root)) if root.built else []
    found = {
        "quantized": {
            path: {
                "mode": part.quantization_mode,
                "config": keras.saving.serialize_keras_object(part.quantization_config),
            }
            for path, part in inner
            if getattr(part, "quantized", False)
        },
        "lora": {
            path: {"rank": part.lora_rank, "alpha": part.lora_alpha}
            for path, part in inner
            if getattr(part, "lora_enabled", False)
        },
        "frozen": list(_frozen(root)) if root.built else [],
    }
    return {name: value for name, value in found.items() if value}


def restore(root: keras.layers.Layer, described: Mapping[str, Any]) -> None:
    """Repeats the adaptations that `describe` returned; an InputError if a layer is missing."""
    if not root.built:
        root.build(root.expected_shape)
    places = dict(parts(root))
    for path, values in described.get("quantized", {}).items():
        part = _find(places, path)
        if not part.quantized:
            config = keras.saving.deserialize_keras_object(values["config"])
            part.quantize(values["mode"], config=config)
    for path, values in described.get("lora", {}).items():
        _find(places, path).enable_lora(values["rank"], lora_alpha=values["alpha"])
    for path in described.get("frozen", ()):
        if path in places:
            places[path].trainable = False
            continue
        folder, _, name = path.rpartition("/")
        for variable in _own(_find(places, folder) if folder else root):
            if variable.name == name:
                variable.trainable = False


def _find(places: Mapping[str, keras.layers.Layer], path: str) -> keras.layers.Layer:
    if path not in places:
        raise InputError(f"the model has no layer {path!r}; the file is from another version.")
    return places[path]


def _own(root: keras.layers.Layer) -> list[keras.Variable]:
    """The variables of a layer that are not in inner layers."""
    inner = {id(variable) for _, part in parts(root) for variable in part.variables}
    return [variable for variable in root.variables if id(variable) not in inner]


def _frozen(root: keras.layers.Layer, scope: str = "") -> Iterator[str]:
    """Paths of frozen layers and variables, except those that LoRA and int8 freeze."""
    for variable in _own(root):
        adapted = getattr(root, "quantized", False) or getattr(root, "lora_enabled", False)
        implied = adapted and variable.name in ("kernel", "kernel_scale")
        if not variable.trainable and not implied:
            yield f"{scope}{variable.name}"
    for path, part in parts(root):
        if "/" in path:
            continue  # inside another part
        if part.variables and not part.trainable_variables:
            yield f"{scope}{path}"
        else:
            yield from _frozen(part, f"{scope}{path}/")
