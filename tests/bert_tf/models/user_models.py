"""Keras models as users make them, with our layers in them."""

import keras
import numpy as np

from bert_tf import BertEncoder
from bert_tf.models.layers import Dense, Embeddings, LayerNorm
from pipelines.tokenizers.packing import MODEL_INPUTS
from tests.bert_tf.helpers import CONFIG, make_batch


def randomize(model, seed=0):
    """Gives a model other weights than its initial ones, gamma among them."""
    rng = np.random.default_rng(seed)
    for variable in model.variables:
        center = 1 if variable.path.endswith("gamma") else 0
        if "float" in variable.dtype:
            variable.assign(rng.normal(center, 0.3, variable.shape))
    return model


def symbolic_inputs(length=None):
    """A symbolic input for each of the encoder's."""
    return {name: keras.Input((length,), dtype="int32", name=name) for name in MODEL_INPUTS}


def classifier(encoder=None, length=None):
    """A functional model: logits of two classes, float32, on the pooled output."""
    inputs = symbolic_inputs(length)
    outputs = (encoder or BertEncoder(CONFIG, name="encoder"))(inputs)
    logits = keras.layers.Dense(2, name="head", dtype="float32")(outputs["pooled_output"])
    return keras.Model(inputs, logits)


def on_ids():
    """A functional model on the ids alone."""
    ids = keras.Input((None,), dtype="int32")
    return keras.Model(ids, keras.layers.Dense(3)(BertEncoder(CONFIG)(ids)["sequence_output"]))


def in_a_row():
    """A sequential model of single layers."""
    return keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            Embeddings(CONFIG),
            LayerNorm(CONFIG.hidden_size),
            Dense(CONFIG.hidden_size, 5),
        ]
    )


@keras.saving.register_keras_serializable(package="tests")
class Tower(keras.Model):
    """A subclass that makes an encoder when it is built."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units

    def build(self, input_shape):
        """Makes the encoder and a head."""
        self.encoder = BertEncoder(CONFIG, name="inner")
        self.head = keras.layers.Dense(self.units)
        self.head.build((None, CONFIG.hidden_size))

    def call(self, inputs, training=False):
        """Logits."""
        return self.head(self.encoder(inputs, training=training)["pooled_output"])

    def get_config(self):
        """The units."""
        return super().get_config() | {"units": self.units}


def tower():
    """The subclass, built by a call."""
    model = Tower(4)
    model(batch())
    return model


def quantized():
    """The functional model with int8 kernels."""
    model = randomize(classifier())
    model.quantize("int8")
    return model


def low_rank():
    """The functional model with LoRA, updates not zero."""
    model = classifier()
    model.get_layer("encoder").enable_lora(2, alpha=3)
    return model


def quantized_low_rank():
    """The functional model with int8 kernels and an update of LoRA far below their rounding."""
    model = quantized()
    encoder = model.get_layer("encoder")
    encoder.enable_lora(2)
    rng = np.random.default_rng(3)
    for variable in encoder.trainable_variables:
        if variable.name == "lora_kernel_b":
            variable.assign(rng.normal(0, 1e-3, variable.shape))
    return model


_KINDS = (classifier, on_ids, in_a_row, tower, quantized, low_rank, quantized_low_rank)
MODELS = {made.__name__: made for made in _KINDS}


def batch():
    """The encoder's inputs, four sequences of ten tokens with padding."""
    return {name: value for name, value in make_batch().items() if name in MODEL_INPUTS}


def inputs_of(name):
    """The inputs of one of MODELS."""
    return batch()["input_word_ids"] if name in ("on_ids", "in_a_row") else batch()
