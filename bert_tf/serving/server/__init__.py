"""A server of our own, which speaks as TensorFlow Serving does."""
