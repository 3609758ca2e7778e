"""Initial values of BERT's weights."""

import keras


def truncated_normal(stddev: float) -> keras.initializers.Initializer:
    """A normal distribution cut at two standard deviations, as the reference has it."""
    return keras.initializers.TruncatedNormal(stddev=stddev)
