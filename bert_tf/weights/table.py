"""Tables of names: the weights of a foreign format by our names, used for reading and writing."""

import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from bert_tf.models.base_config import EncoderConfig
from bert_tf.weights.bundle import absent_groups, check_shape, parameter_shapes
from pipelines.common import machine
from pipelines.common.errors import InputError
from pipelines.common.texts import listed


class StoredArray(Protocol):
    """A weight in a file: an array, or an object that converts to one."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> Any: ...


@dataclasses.dataclass(frozen=True)
class Table:
    """The names of a format.

    In the names, {i} stands for the number of a layer, {head} for the name of a task, and {a,b} for
    several weights that are side by side in ours; {part} is {query,key,value}, and {p} is {q,k,v}.

    Attributes:
      names: Their names by ours, either of a weight or of a layer whose weights have the same
        last part, such as "kernel".
      renamed: Their last parts of names, by ours, where they differ.
      separator: Separates the parts of their names.
      transposed: Whether they store a matrix, by our name, transposed.
      reshaped: Whether their matrices may have more axes (heads) in the same order.
      ignored: A pattern of their names that are not weights of the model.
    """

    names: Mapping[str, str]
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    separator: str = "/"
    transposed: Callable[[str], bool] = lambda _: False
    reshaped: bool = False
    ignored: str = r"$^"

    def read(
        self,
        theirs: Mapping[str, StoredArray],
        config: EncoderConfig,
        place: str,
        heads: Sequence[tuple[str, int]] = (),
        surplus_remedy: str = "",
    ) -> dict[str, np.ndarray]:
        """Converts weights of the format to ours, float32.

        Shape and type of each are checked before it is read. `surplus_remedy` is told, too, if
        there are weights that the model does not have.

        Raises:
          InputError: A weight is missing or unknown, or has another shape or type; or this machine
            has not enough memory.
        """
        rows = list(self._rows(config, heads))
        parameters = sum(math.prod(shape) for _, shape, _ in rows)
        machine.check_memory(4 * parameters, f"{place}: a model of {parameters:,} parameters")
        absent = absent_groups(
            ours for ours, _, names in rows if any(name in theirs for name in names)
        )
        rows = [row for row in rows if not row[0].startswith(absent)]
        result = {}
        for ours, shape, names in rows:
            part = (*shape[:-1], shape[-1] // len(names))
            parts = [self._to_ours(ours, name, theirs, part, place) for name in names]
            result[ours] = np.concatenate(parts, -1) if len(parts) > 1 else parts[0]
        used = {name for _, _, names in rows for name in names}
        surplus = [n for n in sorted(theirs) if n not in used and not re.fullmatch(self.ignored, n)]
        if surplus:
            raise InputError(
                f"{place}: has weights that this model does not have: {listed(surplus, 3)}. "
                f"Does the configuration match them?{surplus_remedy}"
            )
        return result

    def write(
        self, ours: Mapping[str, np.ndarray], config: EncoderConfig, heads: Sequence[str] = ()
    ) -> dict[str, np.ndarray]:
        """Converts our weights to those of the format."""
        units = [(name, ours[f"heads/{name}/bias"].size) for name in heads]
        result = {}
        for name, _, names in self._rows(config, units):
            if name not in ours:
                continue
            for their_name, part in zip(names, np.split(ours[name], len(names), -1), strict=True):
                result[their_name] = np.ascontiguousarray(part.T if self.transposed(name) else part)
        return result

    def theirs(self, ours: str) -> list[str]:
        """Their names of one of our weights; empty if the format does not have it."""
        number = re.search(r"block_(\d+)", ours)
        head = re.search(r"heads/([^/]+)", ours)
        template = re.sub(r"block_\d+", "block_{i}", re.sub("heads/[^/]+", "heads/{head}", ours))
        name = self.names.get(template)
        if name is None:
            layer, _, last = template.rpartition("/")
            if layer not in self.names:
                return []
            name = f"{self.names[layer]}{self.separator}{self.renamed.get(last, last)}"
        name = name.replace("{i}", number.group(1) if number else "")
        name = name.replace("{head}", head.group(1) if head else "")
        name = name.replace("{part}", "{query,key,value}").replace("{p}", "{q,k,v}")
        parts = re.search(r"\{(.*,.*)\}", name)
        return [name.replace(parts[0], part) for part in parts[1].split(",")] if parts else [name]

    def _rows(
        self, config: EncoderConfig, heads: Sequence[tuple[str, int]]
    ) -> Iterator[tuple[str, tuple[int, ...], list[str]]]:
        """Our name, our shape and their names of each weight that the format has."""
        for ours, shape in parameter_shapes(config, heads).items():
            if names := self.theirs(ours):
                yield ours, shape, names

    def _to_ours(
        self,
        ours: str,
        name: str,
        theirs: Mapping[str, StoredArray],
        shape: tuple[int, ...],
        place: str,
    ) -> np.ndarray:
        if name not in theirs:
            raise InputError(f"{place}: lacks the weight {name}.")
        stored, transposed = theirs[name], self.transposed(ours)
        expected = shape[::-1] if transposed else shape
        found = stored.shape
        if not (self.reshaped and found is not None and math.prod(found) == math.prod(expected)):
            check_shape(name, stored, expected, place)
        if not is_float(stored):
            raise InputError(f"{place}: {name} has the type {stored.dtype}, which is not float.")
        value = np.asarray(stored).reshape(expected)
        return np.ascontiguousarray(value.T if transposed else value, np.float32)


def is_float(value: StoredArray) -> bool:
    """Whether an array has a floating-point dtype, including bfloat16."""
    return np.issubdtype(value.dtype, np.floating) or value.dtype.name == "bfloat16"
