"""Activations and their derivatives, by the names in `config.ACTIVATIONS`."""

import functools
import math
from collections.abc import Callable

import tensorflow as tf

Activation = Callable[[tf.Tensor], tf.Tensor]


def function(name: str) -> Activation:
    """The activation function of a name; the result has the dtype of the argument."""
    return _ACTIVATIONS[name][0]


def slope(name: str) -> Activation:
    """The derivative of an activation, for a float32 argument."""
    return _ACTIVATIONS[name][1]


def _gelu(x: tf.Tensor, approximate: bool) -> tf.Tensor:
    """The Gaussian error linear unit (Hendrycks and Gimpel 2016), exact or approximated by tanh."""
    if approximate:
        return 0.5 * x * (1.0 + tf.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1.0 + tf.math.erf(x * math.sqrt(0.5)))


def _gelu_slope(x: tf.Tensor, approximate: bool) -> tf.Tensor:
    if approximate:
        c = math.sqrt(2 / math.pi)
        t = tf.tanh(c * (x + 0.044715 * x * x * x))
        return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * c * (1.0 + 3 * 0.044715 * x * x)
    density = tf.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))
    return 0.5 * (1.0 + tf.math.erf(x * math.sqrt(0.5))) + x * density


_ACTIVATIONS: dict[str, tuple[Activation, Activation]] = {
    "gelu": (
        functools.partial(_gelu, approximate=True),
        functools.partial(_gelu_slope, approximate=True),
    ),
    "gelu_erf": (
        functools.partial(_gelu, approximate=False),
        functools.partial(_gelu_slope, approximate=False),
    ),
    "identity": (tf.identity, tf.ones_like),
    "relu": (tf.nn.relu, lambda x: tf.cast(x > 0, tf.float32)),
    "silu": (
        lambda x: x * tf.sigmoid(x),
        lambda x: tf.sigmoid(x) * (1.0 + x * (1.0 - tf.sigmoid(x))),
    ),
    "tanh": (tf.tanh, lambda x: 1.0 - tf.square(tf.tanh(x))),
}
_ACTIVATIONS["gelu_tanh"] = _ACTIVATIONS["gelu"]
