"""Private names of libraries that are used here: a new version that lacks one is named."""

from importlib import metadata

import keras
import tensorflow as tf


def _version(package):
    return f"{package} {metadata.version(package)} has it no more"


def test_names_of_tensorflow():
    """`export.hub` needs an object whose `trainable_variables` can be set."""
    trackable = tf.__internal__.tracking.AutoTrackable()
    trackable.trainable_variables = [tf.Variable(1.0)]
    assert len(trackable.trainable_variables) == 1, _version("tensorflow")


def test_names_of_keras():
    """`training.optimizers` finds the slots of a variable by Keras's own numbers."""
    optimizer = keras.optimizers.SGD()
    variables = [keras.Variable(1.0), keras.Variable(2.0)]
    optimizer.build(variables)
    assert optimizer._get_variable_index(variables[1]) == 1, _version("keras")
    assert [id(v) for v in optimizer._trainable_variables] == [id(v) for v in variables], _version(
        "keras"
    )
