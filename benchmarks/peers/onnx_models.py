"""Models of transformers in ONNX, for the scripts of the peers."""

from typing import Any

NAMES = ["input_ids", "attention_mask", "token_type_ids"]


def write(model: Any, output: str, path: str) -> None:
    """Exports an output of a model by PyTorch, for batches and lengths of any size."""
    import torch

    class Output(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
            return getattr(self.model(**dict(zip(NAMES, inputs, strict=True))), output)

    sample = torch.ones(2, 8, dtype=torch.int64)
    torch.onnx.export(
        Output(),
        (sample, sample, sample * 0),
        path,
        input_names=NAMES,
        dynamic_axes={name: {0: "batch", 1: "length"} for name in NAMES},
        opset_version=17,
        dynamo=False,
    )


def session(path: str, threads: int) -> Any:
    """ONNX Runtime with all its optimizations."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
