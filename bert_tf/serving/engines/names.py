"""The names of engines."""

import enum


class EngineName(enum.StrEnum):
    """The engines there are."""

    TENSORFLOW = "tensorflow"
    ONNXRUNTIME = "onnxruntime"
    OPENVINO = "openvino"
    LITERT = "litert"
