"""A server with the interfaces of TensorFlow Serving."""
