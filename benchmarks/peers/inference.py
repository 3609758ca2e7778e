"""Answers text pairs with a fine-tuned BERT in Hugging Face's format, tokenization included.

--engine=torch is transformers on PyTorch; onnxruntime and openvino compute the same model, exported
by PyTorch, with the same tokenizer; keras_hub is KerasHub's backbone with these weights, padded to
128 tokens. --precision=bfloat16 is for torch (autocast) and openvino, int8 for onnxruntime (dynamic
quantization). The last line of stdout is the JSON object of `answering.measure`.
"""

import argparse
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import answering
import onnx_models

LENGTH = 128
Pairs = list[tuple[str, str]]


def tokenizer(model: str) -> Callable[[Pairs, str], dict]:
    """The fast tokenizer, with padding to the longest row of a batch."""
    import transformers

    fast = transformers.BertTokenizerFast(f"{model}/vocab.txt", do_lower_case=True)

    def tokenize(pairs: Pairs, tensors: str) -> dict:
        first, second = zip(*pairs, strict=True)
        return fast(
            list(first),
            list(second),
            truncation="longest_first",
            max_length=LENGTH,
            padding=True,
            return_tensors=tensors,
        )

    return tokenize


def torch_engine(model: str, threads: int, precision: str) -> Callable[[Pairs], np.ndarray]:
    """PyTorch with its default attention."""
    import torch
    import transformers

    torch.set_num_threads(threads)
    loaded = transformers.AutoModelForSequenceClassification.from_pretrained(model).eval()
    tokenize = tokenizer(model)
    less = precision == "bfloat16"

    def answer(pairs: Pairs) -> np.ndarray:
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=less):
            return loaded(**tokenize(pairs, "pt")).logits.float().numpy()

    return answer


def write_onnx(model: str, path: str) -> None:
    """Exports the logits of a model by PyTorch."""
    import transformers

    load = transformers.AutoModelForSequenceClassification.from_pretrained
    onnx_models.write(load(model, attn_implementation="eager").eval(), "logits", path)


def onnx_engine(model: str, threads: int, precision: str) -> Callable[[Pairs], np.ndarray]:
    """ONNX Runtime with all its optimizations."""
    from onnxruntime import quantization

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.onnx"
        write_onnx(model, path)
        if precision == "int8":
            full, path = path, f"{folder}/int8.onnx"
            quantization.quantize_dynamic(full, path, per_channel=True, reduce_range=True)
        session = onnx_models.session(path, threads)
    tokenize = tokenizer(model)

    def answer(pairs: Pairs) -> np.ndarray:
        return session.run(None, dict(tokenize(pairs, "np")))[0]

    return answer


def openvino_engine(model: str, threads: int, precision: str) -> Callable[[Pairs], np.ndarray]:
    """OpenVINO with a stream for each computation that the cores are enough for."""
    import openvino

    streams = max(1, len(os.sched_getaffinity(0)) // threads)
    settings = {
        "INFERENCE_PRECISION_HINT": {"float32": "f32", "bfloat16": "bf16"}[precision],
        "INFERENCE_NUM_THREADS": threads * streams,
        "NUM_STREAMS": streams,
    }
    with tempfile.TemporaryDirectory() as folder:
        write_onnx(model, f"{folder}/model.onnx")
        loaded = openvino.Core().compile_model(f"{folder}/model.onnx", "CPU", settings)
    tokenize = tokenizer(model)
    of_thread = threading.local()

    def answer(pairs: Pairs) -> np.ndarray:
        if not hasattr(of_thread, "request"):
            of_thread.request = loaded.create_infer_request()
        inputs = tokenize(pairs, "np")
        found = of_thread.request.infer({name: inputs[name] for name in onnx_models.NAMES})
        return found[loaded.outputs[0]].copy()

    return answer


def keras_hub_engine(model: str, threads: int, precision: str) -> Callable[[Pairs], np.ndarray]:
    """KerasHub on TensorFlow, one function from text to logits; precision is float32."""
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import keras_hub
    import safetensors.numpy
    import tensorflow as tf

    assert precision == "float32"
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    backbone = keras_hub.models.BertBackbone.from_preset(model)
    weights = safetensors.numpy.load_file(f"{model}/model.safetensors")
    kernel, bias = weights["classifier.weight"].T, weights["classifier.bias"]
    words = keras_hub.models.BertTokenizer(
        vocabulary=f"{model}/vocab.txt", lowercase=True, strip_accents=True
    )
    pack = keras_hub.layers.MultiSegmentPacker(
        sequence_length=LENGTH,
        start_value=words.cls_token_id,
        end_value=words.sep_token_id,
        pad_value=words.pad_token_id,
    )

    @tf.function
    def run(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
        ids, segments = pack((words(first), words(second)))
        inputs = {"token_ids": ids, "segment_ids": segments, "padding_mask": ids != 0}
        return tf.matmul(backbone(inputs)["pooled_output"], kernel) + bias

    def answer(pairs: Pairs) -> np.ndarray:
        return run(*(tf.constant(texts) for texts in zip(*pairs, strict=True))).numpy()

    return answer


ENGINES = {
    "torch": torch_engine,
    "onnxruntime": onnx_engine,
    "openvino": openvino_engine,
    "keras_hub": keras_hub_engine,
}


def main() -> None:
    """Measures with the arguments given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=ENGINES, required=True)
    parser.add_argument("--model", required=True, help="Hugging Face folder of a classifier")
    parser.add_argument("--requests", required=True, help="file of the requests, JSON")
    parser.add_argument("--logits", required=True, help="file for the logits, .npy")
    parser.add_argument("--threads", type=int, required=True, help="of one computation")
    parser.add_argument("--precision", default="float32", help="float32, bfloat16 or int8")
    arguments = parser.parse_args()
    make = ENGINES[arguments.engine]
    answer = make(arguments.model, arguments.threads, arguments.precision)
    answering.report(answer, arguments.requests, arguments.logits)


if __name__ == "__main__":
    main()
