"""The names of engines and precisions."""

import enum


class EngineName(enum.StrEnum):
    """The engines there are."""

    TENSORFLOW = "tensorflow"
    ONNXRUNTIME = "onnxruntime"
    OPENVINO = "openvino"
    LITERT = "litert"


class Precision(enum.StrEnum):
    """What weights are multiplied in."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    INT8 = "int8"  # dynamic quantization: activations are scaled as they come


# In place of a name: of those that are installed, what is the fastest on this machine.
AUTO = "auto"
