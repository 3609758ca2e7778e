"""What all layers of this package share."""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Self

import keras

from bert_tf.models.config import BertConfig


class Weight(NamedTuple):
    """A variable as a layer states it.

    Attributes:
      name: the last part of its path.
      shape: of it.
      initial: "zeros", "ones", or the standard deviation of a truncated normal.
      attribute: of the layer, for the variable; its name where there is none.
    """

    name: str
    shape: tuple[int, ...]
    initial: str | float
    attribute: str = ""


class Stated:
    """A layer or model that states its weights and parts once, for all who want to know of them.

    `build` creates what is stated, and `shapes` tells it without creating anything: a model
    of any size is described at the cost of its Python objects.
    """

    name: str
    built: bool
    add_weight: Callable[..., keras.Variable]

    def statement(self) -> Iterable["Weight | Stated"]:
        """The weights of the layer itself and the layers in it, in the order of their creation."""
        raise NotImplementedError

    def build(self, input_shape: object = None) -> None:
        """Creates all variables, float32; their shapes do not depend on the input."""
        if self.built:
            return
        for item in self.statement():
            if isinstance(item, Weight):
                setattr(self, item.attribute or item.name, self._create(item))
            else:
                item.build()
        self.built = True

    def _create(self, weight: Weight) -> keras.Variable:
        # Made here and not stated: Keras draws a seed for each initializer there is.
        initializer = weight.initial
        if not isinstance(initializer, str):
            initializer = keras.initializers.TruncatedNormal(stddev=initializer)
        return self.add_weight(name=weight.name, shape=weight.shape, initializer=initializer)

    def shapes(self, scope: str = "") -> dict[str, tuple[int, ...]]:
        """The shapes of all variables by their paths, in the order of their creation.

        Args:
          scope: what the path of this layer begins with, as "encoder/".
        """
        path = f"{scope}{self.name}/"
        found: dict[str, tuple[int, ...]] = {}
        for item in self.statement():
            if isinstance(item, Weight):
                found[f"{path}{item.name}"] = item.shape
            else:
                found |= item.shapes(path)
        return found

    @property
    def parameters(self) -> int:
        """The number of all weights."""
        return sum(math.prod(shape) for shape in self.shapes().values())


class Layer(Stated, keras.layers.Layer):
    """A layer that casts by itself: variables are float32, and inputs are taken as they come."""

    def __init__(self, **kwargs):
        super().__init__(autocast=False, **kwargs)

    def add_weight(self, **kwargs: Any) -> keras.Variable:
        """Creates a variable that is never cast behind the layer's back."""
        return super().add_weight(autocast=False, **kwargs)


class Configured:
    """Serialization of a Keras layer or model whose constructor takes a BertConfig."""

    config: BertConfig

    def get_config(self) -> dict:
        """The arguments of the constructor."""
        ours = {"config": self.config.to_dict()}
        return super().get_config() | ours  # type: ignore[misc]  # of the Keras class beside it

    @classmethod
    def from_config(cls, config: dict, custom_objects: dict | None = None) -> Self:
        """Makes what `get_config` describes."""
        return cls(**(config | {"config": BertConfig.from_dict(config["config"])}))
