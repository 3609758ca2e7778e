"""What computes sequences: TensorFlow, and other runtimes."""
