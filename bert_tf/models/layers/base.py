"""Base classes of all layers: declared weights, and serialization."""

import inspect
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Self

import keras
import numpy as np

from bert_tf.models import configs
from bert_tf.models.base_config import EncoderConfig
from bert_tf.models.layers import adaptation
from pipelines.common.errors import InputError

# Keras finds classes with this decorator in saved files without `custom_objects`, once their module
# has been imported.
serializable = keras.saving.register_keras_serializable(package="bert_tf")
Shape = tuple[int | None, ...]


class Weight(NamedTuple):
    """The declaration of a variable.

    Attributes:
      name: The last part of its path.
      shape: Its shape.
      initial: "zeros", "ones", or the standard deviation of a truncated normal distribution.
      attribute: The attribute of the layer that holds the variable; "": its name.
      integer: Whether it is int32 and never trained; otherwise it is float32.
    """

    name: str
    shape: tuple[int, ...]
    initial: str | float
    attribute: str = ""
    integer: bool = False

    def first_value(self, rng: np.random.Generator) -> np.ndarray:
        """Draws an initial value, float32, from a generator rather than by Keras."""
        if isinstance(self.initial, str):
            return np.full(self.shape, {"zeros": 0, "ones": 1}[self.initial], np.float32)
        values = rng.standard_normal(self.shape)
        while (far := np.abs(values) > 2).any():
            values[far] = rng.standard_normal(int(far.sum()))
        return (self.initial * values).astype(np.float32)


class Declared:
    """A layer or model that declares its weights before it creates them.

    `build` creates them. `shapes` reports them without creating anything, so a model of any size
    can be described at the cost of its Python objects.
    """

    name: str
    built: bool
    add_weight: Callable[..., keras.Variable]

    def members(self) -> Iterable["Weight | Declared"]:
        """The weights of the layer itself and its inner layers, in the order of creation."""
        return ()

    @property
    def expected_shape(self) -> Shape | dict[str, Shape]:
        """The shape of the first input, with None for a free dimension."""
        raise NotImplementedError

    def build(self, input_shape: object = None) -> None:
        """Creates all variables. Their shapes do not depend on the input."""
        if self.built:
            return
        for member in self.members():
            if isinstance(member, Weight):
                setattr(self, member.attribute or member.name, self._create(member))
            else:
                member.build(member.expected_shape)
        self.built = True

    def _create(self, weight: Weight) -> keras.Variable:
        # Made here and not declared: Keras draws a seed for each initializer object.
        initializer = weight.initial
        if not isinstance(initializer, str):
            initializer = keras.initializers.TruncatedNormal(stddev=initializer)
        kind = {"dtype": "int32", "trainable": False} if weight.integer else {}
        return self.add_weight(
            name=weight.name, shape=weight.shape, initializer=initializer, **kind
        )

    def _owned_weights(self, scope: str = "") -> Iterator[tuple[str, "Declared", Weight]]:
        """Path, layer and declaration of each variable, in the order of creation."""
        path = f"{scope}{self.name}/"
        for member in self.members():
            if isinstance(member, Weight):
                yield f"{path}{member.name}", self, member
            else:
                yield from member._owned_weights(path)

    def weights_by_path(self) -> dict[str, Weight]:
        """The declarations of all variables by path, in the order of creation."""
        return {path: weight for path, _, weight in self._owned_weights()}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of all variables by path, in the order of creation."""
        return {path: weight.shape for path, weight in self.weights_by_path().items()}

    def arrays(self) -> dict[str, np.ndarray]:
        """The values of all variables by path, float32 or int32.

        LoRA updates are merged into their kernels, and int8 kernels are dequantized.
        """
        return {
            path: np.asarray(layer.value_of(weight), np.int32 if weight.integer else np.float32)
            for path, layer, weight in self._owned_weights()
        }

    def value_of(self, weight: Weight) -> Any:
        """The value of a variable as the layer computes with it."""
        return getattr(self, weight.attribute or weight.name)

    def flops(self, rows: int) -> int:
        """Floating-point operations of the matrix products for `rows` rows: 2 per multiply-add."""
        return sum(part.flops(rows) for part in self.members() if isinstance(part, Declared))

    @property
    def parameters(self) -> int:
        """Total number of weights."""
        return sum(math.prod(shape) for shape in self.shapes().values())


class Described:
    """Serialization of a Keras layer or model.

    A constructor argument is serialized if an attribute has its name. LoRA, quantization and
    freezing of inner layers, which Keras does not serialize, are added (`adaptation`).
    """

    def get_config(self) -> dict:
        """Arguments of the constructor, and later adaptations."""
        names = inspect.signature(type(self).__init__).parameters.keys() - {"self", "kwargs"}
        values = {name: getattr(self, name) for name in sorted(names) if hasattr(self, name)}
        plain = {k: v.to_dict() if hasattr(v, "to_dict") else v for k, v in values.items()}
        adapted = adaptation.describe(self)
        return self.keras_config() | plain | ({"adapted": adapted} if adapted else {})

    def quantized_call(self, *args: Any, **kwargs: Any) -> Any:
        """The same as `call`, as the linear maps handle int8 kernels."""
        return self.call(*args, **kwargs)  # type: ignore[attr-defined]  # of the Keras class

    def keras_config(self) -> dict:
        """Arguments of the Keras base class."""
        return super().get_config()  # type: ignore[misc]  # of the Keras class

    @classmethod
    def from_config(cls, config: dict, custom_objects: dict | None = None) -> Self:
        """Creates a layer from the result of `get_config`."""
        arguments = dict(config)
        adapted = arguments.pop("adapted", None)
        made = cls(**arguments)
        if adapted:
            adaptation.restore(made, adapted)
        return made


class Layer(Described, Declared, keras.layers.Layer):
    """A layer that casts explicitly: variables are float32, and inputs are not cast."""

    def __init__(self, expected_shape: Shape = (), **kwargs):
        super().__init__(autocast=False, **kwargs)
        self._expected_shape = expected_shape

    @property
    def expected_shape(self) -> Any:
        """The shape of the first input, with None for a free dimension."""
        return self._expected_shape

    def add_weight(self, **kwargs: Any) -> keras.Variable:
        """Creates a variable that Keras does not cast."""
        return super().add_weight(autocast=False, **kwargs)

    def compute_output_spec(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """The output for a symbolic input, which has its dtype."""
        return keras.KerasTensor(self.compute_output_shape(x.shape), x.dtype)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shape of the output; an InputError if the input does not match `expected_shape`."""
        *outer, width = self.expected_shape
        if len(input_shape) != len(outer) + 1 or input_shape[-1] not in (None, width):
            names = "rows" if len(outer) == 1 else "batch, length"
            raise InputError(f"{self.name}: takes [{names}, {width}], not {list(input_shape)}.")
        return tuple(input_shape)

    def quantize(self, mode: str, type_check: bool = True, config: Any = None) -> None:
        """Quantizes the linear maps in the layer to "int8"; everything else is unchanged."""
        for member in self.members():
            if isinstance(member, Layer):
                member.quantize(mode, config=config)


class Configured(Described):
    """Serialization of a Keras layer or model with an encoder configuration as an argument."""

    config: EncoderConfig

    @classmethod
    def from_config(cls, config: dict, custom_objects: dict | None = None) -> Self:
        """Creates a layer from the result of `get_config`."""
        ours = {"config": configs.of_dict(config["config"])}
        return super().from_config(config | ours, custom_objects)
