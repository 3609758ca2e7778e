"""What all layers of this package share."""

from typing import Any

import keras


class Layer(keras.layers.Layer):
    """A layer that casts by itself: variables are float32, and inputs are taken as they come."""

    def __init__(self, **kwargs):
        super().__init__(autocast=False, **kwargs)

    def add_weight(self, **kwargs: Any) -> keras.Variable:
        """Creates a variable that is never cast behind the layer's back."""
        return super().add_weight(autocast=False, **kwargs)
