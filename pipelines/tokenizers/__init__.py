"""Text to ids as TensorFlow ops, vocabularies, and the packing of ids into sequences."""
