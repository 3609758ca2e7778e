"""What all layers of this package share."""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Self

import keras
import numpy as np

from bert_tf.models import configs
from bert_tf.models.base_config import EncoderConfig
from bert_tf.models.layers import adaptation
from pipelines.common.errors import InputError

# Layers and models with this mark are known to Keras where their module has been imported: files
# that have them are loaded without custom_objects.
serializable = keras.saving.register_keras_serializable(package="bert_tf")
Shape = tuple[int | None, ...]


class Weight(NamedTuple):
    """A variable as a layer states it.

    Attributes:
      name: the last part of its path.
      shape: of it.
      initial: "zeros", "ones", or the standard deviation of a truncated normal.
      attribute: of the layer, for the variable; its name where there is none.
      whole: whether it is of whole numbers, int32, which nothing trains.
    """

    name: str
    shape: tuple[int, ...]
    initial: str | float
    attribute: str = ""
    whole: bool = False


class Stated:
    """A layer or model that states its weights and parts once, for all who want to know of them.

    `build` creates what is stated, and `shapes` tells it without creating anything: a model
    of any size is described at the cost of its Python objects.
    """

    name: str
    built: bool
    add_weight: Callable[..., keras.Variable]

    def members(self) -> Iterable["Weight | Stated"]:
        """The weights of the layer itself and the layers in it, in the order of their creation."""
        raise NotImplementedError

    @property
    def expected_shape(self) -> Shape | dict[str, Shape]:
        """The shape of the first input, None where it is open; `summary` goes by it."""
        raise NotImplementedError

    def build(self, input_shape: object = None) -> None:
        """Creates all variables, float32 but for whole numbers, of shapes that no input decides."""
        if self.built:
            return
        for item in self.members():
            if isinstance(item, Weight):
                setattr(self, item.attribute or item.name, self._create(item))
            else:
                item.build(item.expected_shape)
        self.built = True

    def _create(self, weight: Weight) -> keras.Variable:
        # Made here and not stated: Keras draws a seed for each initializer there is.
        initializer = weight.initial
        if not isinstance(initializer, str):
            initializer = keras.initializers.TruncatedNormal(stddev=initializer)
        kind = {"dtype": "int32", "trainable": False} if weight.whole else {}
        return self.add_weight(
            name=weight.name, shape=weight.shape, initializer=initializer, **kind
        )

    def weights_by_path(self, scope: str = "") -> dict[str, Weight]:
        """All variables as they are stated, by their paths, in the order of their creation.

        Args:
          scope: what the path of this layer begins with, as "encoder/".
        """
        path = f"{scope}{self.name}/"
        found: dict[str, Weight] = {}
        for item in self.members():
            if isinstance(item, Weight):
                found[f"{path}{item.name}"] = item
            else:
                found |= item.weights_by_path(path)
        return found

    def shapes(self, scope: str = "") -> dict[str, tuple[int, ...]]:
        """The shapes of all variables; paths and order as of `weights_by_path`."""
        return {path: weight.shape for path, weight in self.weights_by_path(scope).items()}

    def arrays(self, scope: str = "") -> dict[str, np.ndarray]:
        """The values of all variables, float32 or int32, by their paths (`weights_by_path`).

        Updates of LoRA are merged into their kernels; int8 kernels are as they are computed with.

        Args:
          scope: see `weights_by_path`.
        """
        path = f"{scope}{self.name}/"
        found: dict[str, np.ndarray] = {}
        for item in self.members():
            if isinstance(item, Weight):
                kind = np.int32 if item.whole else np.float32
                found[f"{path}{item.name}"] = np.asarray(self.value_of(item), kind)
            else:
                found |= item.arrays(path)
        return found

    def value_of(self, weight: Weight) -> Any:
        """The value of a variable as the layer computes with it."""
        return getattr(self, weight.attribute or weight.name)

    @property
    def parameters(self) -> int:
        """The number of all weights."""
        return sum(math.prod(shape) for shape in self.shapes().values())


class Described:
    """Serialization of a Keras layer or model, with what was done to it after it was made.

    That is LoRA, quantization, and what was frozen (`adaptation`), which Keras does not keep of
    layers in layers.
    """

    def get_config(self) -> dict:
        """The arguments of the constructor, and what was done since."""
        done = adaptation.describe(self)
        return self.keras_config() | ({"adapted": done} if done else {})

    def quantized_call(self, *args: Any, **kwargs: Any) -> Any:
        """The same as `call`: the linear maps know of int8 kernels."""
        return self.call(*args, **kwargs)  # type: ignore[attr-defined]  # of the Keras class

    def keras_config(self) -> dict:
        """The arguments that Keras itself takes."""
        return super().get_config()  # type: ignore[misc]  # of the Keras class beside it

    @classmethod
    def from_config(cls, config: dict, custom_objects: dict | None = None) -> Self:
        """Makes what `get_config` describes."""
        arguments = dict(config)
        done = arguments.pop("adapted", None)
        made = cls(**arguments)
        if done:
            adaptation.restore(made, done)
        return made


class Layer(Described, Stated, keras.layers.Layer):
    """A layer that casts by itself: variables are float32, and inputs are taken as they come."""

    def __init__(self, **kwargs):
        super().__init__(autocast=False, **kwargs)

    def add_weight(self, **kwargs: Any) -> keras.Variable:
        """Creates a variable that is never cast behind the layer's back."""
        return super().add_weight(autocast=False, **kwargs)

    def compute_output_spec(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """What `call` returns for a symbolic input: it computes in the dtype of that."""
        return keras.KerasTensor(self.compute_output_shape(x.shape), x.dtype)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """That of the input, of the rank and the width that `expected_shape` says.

        Raises:
          InputError: it has others.
        """
        *outer, width = self.expected_shape
        if len(input_shape) != len(outer) + 1 or input_shape[-1] not in (None, width):
            names = "rows" if len(outer) == 1 else "batch, length"
            raise InputError(f"{self.name}: takes [{names}, {width}], not {list(input_shape)}.")
        return tuple(input_shape)

    def quantize(self, mode: str, type_check: bool = True, config: Any = None) -> None:
        """Quantizes the linear maps in it; all else stays as it is.

        Args:
          mode: "int8".
          type_check: of no use here; Keras gives it.
          config: see `keras.quantizers.Int8QuantizationConfig`.
        """
        for item in self.members():
            if isinstance(item, Layer):
                item.quantize(mode, config=config)


class Configured(Described):
    """Serialization of a Keras layer or model whose constructor takes a configuration."""

    config: EncoderConfig

    def get_config(self) -> dict:
        """The arguments of the constructor, and what was done since."""
        return super().get_config() | {"config": self.config.to_dict()}

    @classmethod
    def from_config(cls, config: dict, custom_objects: dict | None = None) -> Self:
        """Makes what `get_config` describes."""
        ours = {"config": configs.of_dict(config["config"])}
        return super().from_config(config | ours, custom_objects)
