"""Embeds the lines of a file with a model of sentence-transformers, tokenization included.

--engine=sentence-transformers is that library on PyTorch. onnxruntime and openvino compute the same
model, exported by PyTorch, in batches of 32 of similar lengths, as that library calls them.
--precision=bfloat16 is for sentence-transformers and openvino, int8 for onnxruntime (dynamic
quantization). The last line of stdout is JSON, see `embedding_times.report`.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import embedding_times
import onnx_models

_BATCH = 32
Embed = Callable[[list[str]], np.ndarray]


def sentence_transformers(model: str, threads: int, precision: str) -> Embed:
    """The library with its defaults."""
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(threads)
    loaded = SentenceTransformer(model, device="cpu", model_kwargs={"dtype": precision})
    return lambda texts: loaded.encode(texts, normalize_embeddings=True)


def write_onnx(model: str, folder: str) -> str:
    """Exports the encoder by PyTorch; returns the path of the file."""
    import transformers

    path = f"{folder}/model.onnx"
    encoder = transformers.AutoModel.from_pretrained(model, attn_implementation="eager").eval()
    onnx_models.write(encoder, "last_hidden_state", path)
    return path


def _pooled(model: str, run: Callable[[dict[str, np.ndarray]], np.ndarray]) -> Embed:
    """Batches of similar lengths, the mean of the tokens of each text, with norm 1."""
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(f"{model}/tokenizer.json")
    limits = json.loads(Path(f"{model}/sentence_bert_config.json").read_text())
    tokenizer.enable_truncation(limits["max_seq_length"])
    tokenizer.enable_padding()

    def embed(texts: list[str]) -> np.ndarray:
        order = np.argsort([-len(text) for text in texts])
        found = []
        for rows in np.split(order, range(_BATCH, len(texts), _BATCH)):
            encoded = tokenizer.encode_batch([texts[row] for row in rows])
            ids = np.array([each.ids for each in encoded])
            mask = np.array([each.attention_mask for each in encoded])
            tokens = run(dict(zip(onnx_models.NAMES, (ids, mask, ids * 0), strict=True)))
            vectors = (tokens * mask[..., np.newaxis].astype(np.float32)).sum(1)
            found.append(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
        return np.concatenate(found)[np.argsort(order)]

    return embed


def onnxruntime(model: str, threads: int, precision: str) -> Embed:
    """ONNX Runtime with all its optimizations."""
    from onnxruntime import quantization

    with tempfile.TemporaryDirectory() as folder:
        path = write_onnx(model, folder)
        if precision == "int8":
            full, path = path, f"{folder}/int8.onnx"
            quantization.quantize_dynamic(full, path, per_channel=True)
        session = onnx_models.session(path, threads)
    return _pooled(model, lambda inputs: session.run(None, inputs)[0])


def openvino(model: str, threads: int, precision: str) -> Embed:
    """OpenVINO, which uses all threads for one batch."""
    import openvino

    hint = {"float32": "f32", "bfloat16": "bf16"}[precision]
    settings = {"INFERENCE_PRECISION_HINT": hint, "INFERENCE_NUM_THREADS": threads}
    with tempfile.TemporaryDirectory() as folder:
        path = write_onnx(model, folder)
        loaded = openvino.Core().compile_model(path, "CPU", settings)
    request = loaded.create_infer_request()
    return _pooled(model, lambda inputs: request.infer(inputs)[loaded.outputs[0]])


ENGINES = {
    "sentence-transformers": sentence_transformers,
    "onnxruntime": onnxruntime,
    "openvino": openvino,
}


def main() -> None:
    """Measures with the arguments given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=ENGINES, required=True)
    parser.add_argument("--model", required=True, help="folder of sentence-transformers")
    parser.add_argument("--texts", required=True, help="a text on each line")
    parser.add_argument("--vectors", required=True, help="file for the vectors, .npy")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--precision", default="float32", help="float32, bfloat16 or int8")
    arguments = parser.parse_args()
    make = ENGINES[arguments.engine]
    embed = make(arguments.model, arguments.threads, arguments.precision)
    embedding_times.report(embed, arguments.texts, arguments.vectors)


if __name__ == "__main__":
    main()
