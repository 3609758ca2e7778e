"""What is done to models after they are made: LoRA, quantization, and freezing.

Keras keeps none of it for layers within layers. Here it is described as JSON, and done again to a
model that was made anew, so that its weights and its optimizer find their places.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import keras

from pipelines.common.errors import InputError


def parts(root: keras.layers.Layer, scope: str = "") -> Iterator[tuple[str, keras.layers.Layer]]:
    """The layers in a layer or model, from the outside to the inside, by their paths in it.

    Args:
      root: one of this package's; layers of others in it are left out.
      scope: what the paths begin with, as "encoder/".
    """
    inner = root.layers if isinstance(root, keras.Model) else root.members()
    for part in inner:
        if isinstance(part, keras.layers.Layer) and hasattr(part, "members"):
            path = f"{scope}{part.name}"
            yield path, part
            yield from parts(part, f"{path}/")


def enable_lora(root: keras.Model, rank: int, alpha: float | None, layers: str) -> None:
    """Adds low-rank updates to linear maps, and freezes all else; see `BertEncoder.enable_lora`."""
    chosen = {
        path: part
        for path, part in parts(root)
        if hasattr(part, "lora_enabled") and re.search(layers, path)
    }
    if not chosen:
        maps = [path for path, part in parts(root) if hasattr(part, "lora_enabled")]
        raise InputError(
            f"layers: no linear map has {layers!r} in its path; they are {', '.join(maps)}."
        )
    if isinstance(rank, bool) or not isinstance(rank, int) or rank < 1:
        raise InputError(f"rank is {rank!r}; it must be a whole number of 1 or more.")
    enabled = [path for path, part in chosen.items() if part.lora_enabled]
    if enabled:
        raise InputError(f"{', '.join(enabled)}: LoRA is enabled already; it can be only once.")
    root.trainable = True  # what a frozen layer is given would be frozen, too
    for variable in root.variables:
        variable.trainable = False
    for part in chosen.values():
        part.enable_lora(rank, lora_alpha=alpha)


def describe(root: keras.layers.Layer) -> dict[str, Any]:
    """What was done to the layers in a layer or model, as JSON values; empty where nothing was."""
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


def restore(root: keras.layers.Layer, done: Mapping[str, Any]) -> None:
    """Does to the layers in a layer or model what `describe` described.

    Raises:
      InputError: there is no such layer.
    """
    if not root.built:
        root.build(root.expected_shape)
    places = dict(parts(root))
    for path, values in done.get("quantized", {}).items():
        part = _find(places, path)
        if not part.quantized:
            config = keras.saving.deserialize_keras_object(values["config"])
            part.quantize(values["mode"], config=config)
    for path, values in done.get("lora", {}).items():
        _find(places, path).enable_lora(values["rank"], lora_alpha=values["alpha"])
    for path in done.get("frozen", ()):
        if path in places:
            places[path].trainable = False
            continue
        folder, _, name = path.rpartition("/")
        for variable in _own(_find(places, folder) if folder else root):
            if variable.name == name:
                variable.trainable = False


def _find(places: Mapping[str, keras.layers.Layer], path: str) -> keras.layers.Layer:
    if path not in places:
        raise InputError(f"the model has no layer {path!r}; the file is of another version.")
    return places[path]


def _own(root: keras.layers.Layer) -> list[keras.Variable]:
    """The variables of a layer itself."""
    inner = {id(variable) for _, part in parts(root) for variable in part.variables}
    return [variable for variable in root.variables if id(variable) not in inner]


def _frozen(root: keras.layers.Layer, scope: str = "") -> Iterator[str]:
    """Paths of layers and variables that are not trained, but for what LoRA and int8 freeze."""
    for variable in _own(root):
        adapted = getattr(root, "quantized", False) or getattr(root, "lora_enabled", False)
        implied = adapted and variable.name in ("kernel", "kernel_scale")
        if not variable.trainable and not implied:
            yield f"{scope}{variable.name}"
    for path, part in parts(root):
        if "/" in path:
            continue  # within one of the others
        if part.variables and not part.trainable_variables:
            yield f"{scope}{path}"
        else:
            yield from _frozen(part, f"{scope}{path}/")
