"""TensorFlow's saved_model_cli with the ops of tensorflow_text."""

import tensorflow_text  # noqa: F401
from tensorflow.python.tools import saved_model_cli

saved_model_cli.main()
