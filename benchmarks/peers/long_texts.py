"""Encodes one long text at a time with ModernBERT; the last line of stdout is JSON.

It has the seconds by the number of tokens, the best of three. --make writes the model, of the base
size with random weights. transformers attends by PyTorch's scaled_dot_product_attention;
onnxruntime computes the same model, exported by PyTorch.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

_RUNS = 3
Encode = Callable[[np.ndarray], np.ndarray]


def make(folder: str) -> None:
    """Writes the model."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.ModernBertConfig(reference_compile=False)
    transformers.ModernBertModel(config).save_pretrained(folder)


def pytorch(model: str, threads: int, precision: str) -> Encode:
    """PyTorch; in bfloat16 by autocast."""
    import torch
    import transformers

    torch.set_num_threads(threads)
    loaded = transformers.AutoModel.from_pretrained(model, attn_implementation="sdpa").eval()
    less = precision == "bfloat16"

    def encode(ids: np.ndarray) -> np.ndarray:
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=less):
            found = loaded(input_ids=torch.from_numpy(ids))
            return found.last_hidden_state.float().numpy()

    return encode


def onnxruntime(model: str, threads: int, precision: str) -> Encode:
    """ONNX Runtime with all its optimizations, in float32."""
    import onnx_models
    import torch
    import transformers

    assert precision == "float32"
    loaded = transformers.AutoModel.from_pretrained(model, attn_implementation="sdpa").eval()

    class Tokens(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.loaded = loaded

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.loaded(input_ids=ids).last_hidden_state

    sample = torch.ones(1, 256, dtype=torch.int64)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.onnx"
        shapes = ({1: torch.export.Dim("length", min=2, max=8192)},)
        torch.onnx.export(
            Tokens(), (sample,), path, input_names=["ids"], dynamic_shapes=shapes, dynamo=True
        )
        session = onnx_models.session(path, threads)
    return lambda ids: session.run(None, {"ids": ids})[0]


def report(encode: Encode, lengths: list[int], vocabulary: int, output: str) -> None:
    """Times the lengths, and writes the mean hidden state of each text."""
    seconds, means = {}, []
    for length in lengths:
        ids = np.random.default_rng(length).integers(5, vocabulary, (1, length))
        means.append(encode(ids).mean(1)[0])
        times = []
        for _ in range(_RUNS):
            start = time.perf_counter()
            encode(ids)
            times.append(time.perf_counter() - start)
        seconds[str(length)] = min(times)
    np.save(output, np.stack(means))
    print(json.dumps(seconds))


def main() -> None:
    """Makes the model, or measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--make", help="folder to write the model to")
    parser.add_argument("--engine", choices=["transformers", "onnxruntime"])
    parser.add_argument("--model", help="folder of the model")
    parser.add_argument("--lengths", help="numbers of tokens, with commas")
    parser.add_argument("--threads", type=int, help="of a computation")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--output", help="file for the means, .npy")
    args = parser.parse_args()
    if args.make:
        make(args.make)
        return
    vocabulary = json.loads(Path(f"{args.model}/config.json").read_text())["vocab_size"]
    engine = pytorch if args.engine == "transformers" else onnxruntime
    encode = engine(args.model, args.threads, args.precision)
    report(encode, [int(each) for each in args.lengths.split(",")], vocabulary, args.output)


if __name__ == "__main__":
    main()
