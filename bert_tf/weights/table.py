"""Tables of names: the weights of a foreign format beside ours, read in both directions."""

import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from bert_tf.models.base_config import EncoderConfig
from bert_tf.weights.bundle import absent_groups, parameter_shapes
from pipelines.common import machine
from pipelines.common.errors import InputError

_QKV = ("query", "key", "value")


class Stored(Protocol):
    """A weight in a file: an array, or what becomes one when it is read."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> Any: ...


@dataclasses.dataclass(frozen=True)
class Table:
    """The names of a format.

    In the names, {i} stands for the number of a layer, {head} for the name of a
    task, and {part} for query, key and value, which we keep side by side in one.

    Attributes:
      names: theirs, by ours.
      transposed: whether they keep a matrix (by our name) transposed to ours.
      reshaped: whether their matrices have other axes (one of heads) in the same order.
      ignored: a pattern of their names that are no weights of the model.
    """

    names: Mapping[str, str]
    transposed: Callable[[str], bool] = lambda _: False
    reshaped: bool = False
    ignored: str = r"$^"

    def read(
        self,
        theirs: Mapping[str, Stored],
        config: EncoderConfig,
        place: str,
        heads: Sequence[tuple[str, int]] = (),
    ) -> dict[str, np.ndarray]:
        """Turns weights of the format into ours, float32.

        Shape and type of each are checked before it is read; what is surplus is not read.

        Raises:
          InputError: a weight is missing, surplus or misshapen; it is named. Or this machine has
            not the memory for them.
        """
        rows = list(self._rows(config, heads))
        parameters = sum(math.prod(shape) for _, shape, _ in rows)
        machine.check_memory(4 * parameters, f"{place}: a model of {parameters:,} parameters")
        absent = absent_groups(
            ours for ours, _, names in rows if any(name in theirs for name in names)
        )
        result: dict[str, np.ndarray] = {}
        used: set[str] = set()
        for ours, shape, names in rows:
            if ours.startswith(absent):
                continue
            parts = []
            for name in names:
                if name not in theirs:
                    raise InputError(f"{place}: lacks the weight {name}.")
                used.add(name)
                part = (*shape[:-1], shape[-1] // len(names))
                parts.append(self._to_ours(ours, name, theirs[name], part, place))
            result[ours] = np.concatenate(parts, -1) if len(parts) > 1 else parts[0]
        surplus = [n for n in theirs if n not in used and not re.fullmatch(self.ignored, n)]
        if surplus:
            more = f" and {len(surplus) - 3} more" if len(surplus) > 3 else ""
            raise InputError(
                f"{place}: has weights that this model has no place for: "
                f"{', '.join(sorted(surplus)[:3])}{more}. Does the configuration fit them?"
            )
        return result

    def write(
        self, ours: Mapping[str, np.ndarray], config: EncoderConfig, heads: Sequence[str] = ()
    ) -> dict[str, np.ndarray]:
        """Turns our weights into those of the format."""
        units = [(name, ours[f"heads/{name}/bias"].size) for name in heads]
        result = {}
        for name, _, names in self._rows(config, units):
            if name not in ours:
                continue
            for their_name, part in zip(names, np.split(ours[name], len(names), -1), strict=True):
                result[their_name] = np.ascontiguousarray(part.T if self.transposed(name) else part)
        return result

    def _rows(
        self, config: EncoderConfig, heads: Sequence[tuple[str, int]]
    ) -> Iterator[tuple[str, tuple[int, ...], list[str]]]:
        """Our name, our shape and their names of each weight."""
        for ours, shape in parameter_shapes(config, heads).items():
            number = re.search(r"block_(\d+)", ours)
            head = re.search(r"heads/([^/]+)", ours)
            template = ours
            if number:
                template = template.replace(number.group(), "block_{i}")
            if head:
                template = template.replace(head.group(), "heads/{head}")
            name = self.names.get(template)
            if name is None:
                continue
            name = name.replace("{i}", number.group(1) if number else "")
            name = name.replace("{head}", head.group(1) if head else "")
            parts = _QKV if "{part}" in name else ("",)
            yield ours, shape, [name.replace("{part}", part) for part in parts]

    def _to_ours(
        self, ours: str, name: str, stored: Stored, shape: tuple[int, ...], place: str
    ) -> np.ndarray:
        theirs = shape[::-1] if self.transposed(ours) else shape
        found = stored.shape
        same_size = self.reshaped and found is not None and math.prod(found) == math.prod(theirs)
        if found != theirs and not same_size:
            raise InputError(
                f"{place}: {name} has the shape {list(found or ())}; the configuration says "
                f"{list(theirs)}."
            )
        if not is_float(stored):
            raise InputError(f"{place}: {name} has the type {stored.dtype}, not one of floats.")
        value = np.asarray(stored).reshape(theirs)
        value = value.T if self.transposed(ours) else value
        return np.ascontiguousarray(value, np.float32)


def is_float(value: Stored) -> bool:
    """Whether an array is of floating-point numbers, bfloat16 included."""
    return np.issubdtype(value.dtype, np.floating) or value.dtype.name == "bfloat16"
