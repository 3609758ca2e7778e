r"""Embeds texts with a model of sentence-transformers: ours and other engines, in turn.

  python -m benchmarks.embedding --peer_python=.venv-peers/bin/python --model=MODEL \
      --texts=texts.txt --dev=stsb_dev.csv --work=/tmp/embedding

--texts has a text on each line, of mixed lengths; --dev is a table of text_a, text_b and a score
from 0 to 1, on which int8 has to keep the rank correlation. All use all cores, and each figure is
the best of two rounds. Results go to benchmarks/embedding.json: the rate for the file, and the
median of single texts. Ours are `bert_tf.Embedder` (float32, files), and exports by the engine that
`--engine=auto` takes.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.processes import computed, json_of
from pipelines.common.machine import cores

_RESULTS = Path("benchmarks/embedding.json")
_ROUNDS = 2
_RUNS = (
    ("ours", "embedder", "float32"),
    ("ours", "export", "float32"),
    ("ours", "export", "bfloat16"),
    ("ours", "export", "int8"),
    ("peer", "sentence-transformers", "float32"),
    ("peer", "sentence-transformers", "bfloat16"),
    ("peer", "onnxruntime", "float32"),
    ("peer", "onnxruntime", "int8"),
    ("peer", "openvino", "float32"),
    ("peer", "openvino", "bfloat16"),
)


def main() -> None:
    """Measures all, and writes the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("peer_python", "model", "texts", "dev"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--work", required=True, type=Path)
    args = parser.parse_args()
    runs = computed(_RUNS)
    for precision in (precision for _, engine, precision in runs if engine == "export"):
        command = [sys.executable, "-m", "bert_tf", "export", f"--tasks=embedding={args.model}"]
        command += [f"--output={args.work}/{precision}", f"--precision={precision}"]
        command += [f"--dev=embedding={args.dev}"] * (precision != "float32")
        subprocess.run(command, check=True)
    found: dict[str, dict[str, Any]] = {}
    for _ in range(_ROUNDS):
        for side, engine, precision in runs:
            key = f"{side}: {engine}, {precision}"
            flags = [f"--model={args.model}", f"--engine={engine}", f"--precision={precision}"]
            flags += [f"--vectors={args.work}/{key}.npy"]
            if side == "ours":
                command = [sys.executable, "-m", "benchmarks.embedding_ours"]
                flags += [f"--export={args.work}/{precision}"]
            else:
                command = [args.peer_python, "benchmarks/peers/embedding.py"]
                flags += [f"--threads={cores()}"]
            new = json_of([*command, *flags, f"--texts={args.texts}"])
            known = found.setdefault(key, new)
            known["file"] = max(known["file"], new["file"])
            known["single"] = min(known["single"], new["single"])
    reference = np.load(f"{args.work}/peer: sentence-transformers, float32.npy")
    for key, figures in found.items():
        vectors = np.load(f"{args.work}/{key}.npy")
        figures["difference"] = float(np.abs(vectors - reference).max())
        print(f"{key}: {figures}")
    _RESULTS.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
