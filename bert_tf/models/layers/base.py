"""What all layers of this package share."""

from typing import Any, Self

import keras

from bert_tf.models.config import BertConfig


class Layer(keras.layers.Layer):
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
        return super().get_config() | {"config": self.config.to_dict()}

    @classmethod
    def from_config(cls, config: dict, custom_objects: dict | None = None) -> Self:
        """Makes what `get_config` describes."""
        return cls(**(config | {"config": BertConfig.from_dict(config["config"])}))
