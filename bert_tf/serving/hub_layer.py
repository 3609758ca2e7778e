"""TF Hub encoders and preprocessors as Keras 3 layers; hub.KerasLayer needs Keras 2."""

import os
from typing import Any

import keras
import tensorflow_text  # noqa: F401  (registers the tokenizer's ops)

from pipelines.common import optional


@keras.saving.register_keras_serializable("bert_tf")
class HubLayer(keras.layers.Layer):
    """A reusable SavedModel with the common text API, which can be trained further.

    >>> preprocess = HubLayer("savedmodels/hub/preprocess")
    >>> encoder = HubLayer("savedmodels/hub/encoder", trainable=True)
    >>> encoder(preprocess(tf.constant(["a text"])))["pooled_output"].shape
    TensorShape([1, 128])

    Args:
      handle: a folder, or a TF Hub handle.
      trainable: whether its weights are trained.

    Raises:
      InputError: the extra `hub` is not installed.
    """

    def __init__(self, handle: str | os.PathLike[str], trainable: bool = False, **kwargs: Any):
        super().__init__(**kwargs)
        self.handle = handle = os.fspath(handle)
        loaded = optional.load("tensorflow_hub", "hub").load(handle)
        self._call = lambda: loaded  # hidden from Keras, which would track it otherwise
        self._takes_training = hasattr(loaded, "trainable_variables")
        trained = {id(variable) for variable in getattr(loaded, "trainable_variables", ())}
        for variable in getattr(loaded, "variables", ()):
            self._track_variable(
                keras.Variable(
                    initializer=variable,
                    trainable=id(variable) in trained,
                    name=variable.name.split(":")[0].replace("/", "_"),
                )
            )
        self.built = True
        self.trainable = trainable  # of all that can be trained, also later

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Returns the outputs of the SavedModel."""
        if self._takes_training:
            return self._call()(inputs, training=bool(training) and self.trainable)
        return self._call()(inputs)

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return super().get_config() | {"handle": self.handle}
