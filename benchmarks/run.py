"""Compares with peers side by side, and writes benchmarks/results.json.

Each comparison runs ours and the peer's one after the other and reports the ratio. Peers run in an
environment of their own (benchmarks/requirements.txt).
"""

import argparse
import datetime
import json
import platform
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import answers
from benchmarks.processes import computed, json_of, parsed, peak_memory, place, row
from pipelines.corpus import builtin

_PEERS = Path("benchmarks/peers")
_COMMAND = (sys.executable, "-m", "bert_tf")
_WRITER_COPIES = 4
_MEMORY_BYTES = (100_000_000, 1_000_000_000)
# Under glibc, PyTorch is faster if memory is kept between allocations.
_KEEP_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "-1",
    "MALLOC_TOP_PAD_": "268435456",
}
Figures = dict[str, Any]
Rows = dict[str, Figures]


class Benchmarks:
    """The comparisons; each method returns rows of results by name.

    Args:
      args: the command line.
      folder: folder for temporary files.
    """

    def __init__(self, args: argparse.Namespace, folder: Path):
        self._args, self._folder = args, folder
        self._corpus = folder / "corpus.txt"
        self._vocab = args.vocab or str(folder / "vocab.txt")

    def _peer(self, script: str, *arguments: str, **environment: str) -> dict[str, Any]:
        return json_of([self._args.peer_python, str(_PEERS / script), *arguments], **environment)

    def _tokenizer(self, *arguments: str) -> dict[str, Any]:
        """Figures of a fast tokenizer; nothing without the Python that has the peers."""
        return self._peer("tokenizer_speed.py", *arguments) if self._args.peer_python else {}

    def _original(self, *arguments: str) -> dict[str, Any]:
        """Figures of google-research/bert; nothing without a clone."""
        if not self._args.bert_clone:
            return {}
        script = str(_PEERS / "create_pretraining_data.py")
        return json_of([sys.executable, script, f"--clone={self._args.bert_clone}", *arguments])

    def _texts(self) -> None:
        """Writes the corpus and the vocabulary, once."""
        if self._corpus.exists():
            return
        builtin.make(str(self._corpus))
        if not self._args.vocab:
            files = (f"--corpus={self._corpus}", f"--output={self._vocab}")
            subprocess.run([*_COMMAND, "learn-vocabulary", *files], check=True)

    def _repeated(self, name: str, size: int) -> Path:
        """A file of at least `size` bytes with shuffled copies of the documents of the corpus."""
        documents = self._corpus.read_text("utf-8").split("\n\n")
        rng = random.Random(0)
        path = self._folder / name
        with path.open("w", encoding="utf-8") as file:
            while file.tell() < size:
                rng.shuffle(documents)
                file.write("\n\n".join(documents) + "\n\n")
        return path

    def _write_command(self, corpus: Path, output: Path) -> list[str]:
        files = (f"--corpus={corpus}", f"--vocab={self._vocab}", f"--output={output}")
        return [*_COMMAND, "write-examples", *files, "--dupe_factor=5", "--workers=2"]

    def tokenizer(self) -> Rows:
        """Our tokenizers, of graphs and of the writer, and others, on one core."""
        self._texts()
        text = [f"--input={self._corpus}", f"--vocab={self._vocab}"]
        command = [sys.executable, "-m", "benchmarks.tokenizer"]
        ours, writer = (json_of([*command, *text, *more]) for more in ((), ("--running_text",)))
        peer = self._original(*text, "--tokenize_only")
        compared = (
            "uncased tokenization of the built-in corpus on one core; peer: FullTokenizer of "
            "google-research/bert"
        )
        name = "megabytes_per_second"
        fastest = self._tokenizer(*text)
        compared_fastest = (
            "uncased tokenization of the built-in corpus, as the writer of examples does it, on "
            "one core; peer: nanotoken"
        )
        vocabularies = {}
        for kind in ("sentencepiece", "byte_bpe"):
            folder = self._folder / kind
            if not folder.exists():
                files = (f"--corpus={self._corpus}", f"--output={folder}", f"--kind={kind}")
                subprocess.run([*_COMMAND, "learn-vocabulary", *files], check=True)
            vocabularies[kind] = f"--vocab={folder}"
        once = [*command, text[0], "--passes=1"]
        own, library, bytes_ = (
            json_of([*once, vocabularies[kind], extra])[name]
            for kind, extra in (
                ("sentencepiece", "--running_text"),
                ("sentencepiece", "--library"),
                ("byte_bpe", "--running_text"),
            )
        )
        compared_bytes = (
            "byte-level BPE of the built-in corpus, as the writer of examples does it, once, on "
            "one core; peer: bpe-openai, its best of three passes, with cl100k"
        )
        compared_pieces = (
            "SentencePiece of the built-in corpus, as the writer of examples does it, once, on one "
            "core; peer: its library, without ALBERT's normalization"
        )
        return {
            "tokenizer": row(ours[name], peer.get(name), "MB/s", compared),
            "tokenizer_nanotoken": row(writer[name], fastest.get(name), "MB/s", compared_fastest),
            "tokenizer_sentencepiece": row(own, library, "MB/s", compared_pieces),
            "tokenizer_byte_bpe": row(
                bytes_, self._tokenizer(text[0]).get(name), "MB/s", compared_bytes
            ),
        }

    def writer(self) -> Rows:
        """Our example writer and the original one, from start to end."""
        self._texts()
        text = self._repeated("writer.txt", _WRITER_COPIES * self._corpus.stat().st_size)
        output = self._folder / "writer"
        _, last = peak_memory(self._write_command(text, output))
        records = json.loads((output / "manifest.json").read_text())["train"]["records"]
        seconds = float(re.findall(r"([\d.]+) s$", last)[-1])
        files = (f"--input={text}", f"--vocab={self._vocab}", f"--output={self._folder}/original")
        peer = self._original(*files, "--dupe_factor=5")
        compared = (
            f"{text.stat().st_size / 1e6:.0f} MB of text, length 128, 20 predictions, dupe_factor "
            "5, 2 workers, starting them included; peer: create_pretraining_data.py of "
            "google-research/bert (one process)"
        )
        rate = peer.get("instances_per_second")
        return {"writer": row(records / seconds, rate, "instances/s", compared)}

    def memory(self) -> Rows:
        """The peak memory of our example writer on a small and on a large corpus."""
        self._texts()
        rows = {}
        for size in _MEMORY_BYTES:
            text, output = self._repeated("memory.txt", size), self._folder / "memory"
            peak, _ = peak_memory(self._write_command(text, output))
            compared = (
                "peak of the proportional set sizes of all processes, "
                f"{text.stat().st_size / 1e9:.2f} GB of text, 2 workers"
            )
            rows[f"writer_memory_{size / 1e9:.1f}_GB"] = row(peak, None, "GiB", compared)
            shutil.rmtree(output)
        return rows

    def step(self) -> Rows:
        """Our pre-training step and those of the peers, each in its faster precision."""
        shape = "6 layers, 384 wide, 12 heads, batch 32, length 128, 20 predictions, training step"
        faster = f"{shape}, each in its faster precision"
        precisions = [row[-1] for row in computed([("float32",), ("bfloat16",)])]
        lowest = f"--precision={precisions[-1]}"
        flags = [f"--precision={'mixed_' * (p == 'bfloat16')}{p}" for p in precisions]
        ours = [json_of([sys.executable, "-m", "benchmarks.step", flag]) for flag in flags]
        keras_hub = [self._peer("keras_hub_step.py", flag) for flag in flags]
        released = [self._peer("hugging_face_step.py", f"--precision={p}") for p in precisions]
        kept, predicted = (
            self._peer("hugging_face_step.py", lowest, f"--head={head}", **_KEEP_MEMORY)
            for head in ("all", "predicted")
        )

        def compare(ours: list[Figures], peers: list[Figures], text: str) -> dict[str, Any]:
            mine, theirs = (max(r["sequences_per_second"] for r in side) for side in (ours, peers))
            return row(mine, theirs, "sequences/s", text)

        return {
            "step_keras_hub": compare(
                ours,
                keras_hub,
                f"{faster}; peer: KerasHub BertMaskedLM (which has no next-sentence loss)",
            ),
            "step_hugging_face": compare(
                ours,
                released,
                f"{faster}; peer: Hugging Face BertForPreTraining on PyTorch, as released",
            ),
            "step_hugging_face_malloc": compare(
                ours, [kept], f"the same peer in {precisions[-1]}, with malloc set to keep memory"
            ),
            "step_hugging_face_predicted": compare(
                ours,
                [predicted],
                "the same again, rewritten to compute logits at the 20 predicted positions only",
            ),
            "step_float32": compare(
                ours[:1], keras_hub[:1], f"{shape}, both in float32; peer: KerasHub BertMaskedLM"
            ),
        }

    def finetune(self) -> Rows:
        """MRPC from process start to dev predictions, ours and the usual recipe of the peer."""
        where = [self._args.peer_python, "tests/hugging_face_outputs.py", "where"]
        released = subprocess.run(where, capture_output=True, text=True, check=True)
        model, data = released.stdout.strip(), f"{self._args.glue}/MRPC"
        start, output = time.perf_counter(), self._folder / "ours"
        command = [
            *(*_COMMAND, "finetune", "--task=mrpc", f"--data={data}", f"--init={model}"),
            *(f"--output={output}", f"--cache={output}-cache"),
        ]
        print("$", " ".join(command), flush=True)
        subprocess.run(command, check=True, capture_output=True)
        seconds = time.perf_counter() - start
        report = json.loads((output / "report.json").read_text())
        accuracy = report["metrics"]["median"]["accuracy"]
        peer = self._peer(
            "hugging_face_finetune.py",
            *("--task=mrpc", f"--data={data}", f"--model={model}", "--seed=1", "--pad=max"),
            *("--precision=float32", f"--out={self._folder}/peer.json"),
        )
        compared = (
            f"MRPC, 3 epochs, process start to dev predictions, in {seconds:.0f} s (accuracy "
            f"{accuracy:.3f}); peer: Hugging Face, padded to 128, float32, in "
            f"{peer['seconds_total']:.0f} s (accuracy {peer['best']['accuracy']:.3f})"
        )
        rates = 3600 / seconds, 3600 / peer["seconds_total"]
        return {"finetune_mrpc": row(*rates, "runs/hour", compared)}

    def inference(self) -> Rows:
        """Text pairs to logits, tokenization included, with the same fine-tuned weights."""
        dev = f"{self._args.glue}/RTE/dev.tsv"
        return answers.compare(self._args.rte_model, dev, self._folder, self._peer)


_NAMES = ("tokenizer", "writer", "memory", "step", "finetune", "inference")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--peer_python", help="Python with the peers installed")
    parser.add_argument("--bert_clone", help="clone of google-research/bert, one of the peers")
    parser.add_argument("--vocab", help="uncased vocab.txt (default: learned)")
    parser.add_argument("--glue", help="folder of GLUE, for fine-tuning and inference")
    parser.add_argument("--rte_model", help="model fine-tuned for RTE, for inference")
    parser.add_argument("--results", type=Path, default="benchmarks/results.json")
    parser.add_argument("--only", help=f"comparisons, separated by commas: {', '.join(_NAMES)}")
    args = parsed(parser, arguments)
    given = {"finetune": args.glue, "inference": args.glue and args.rte_model}
    possible = [name for name in _NAMES if given.get(name, True)]
    args.only = args.only.split(",") if args.only else possible
    for name in args.only:
        if name not in possible:
            needs = "needs --glue, inference also --rte_model" if name in given else "is unknown"
            parser.error(f"--only={name}: {name} {needs}; comparisons are {', '.join(_NAMES)}")
    if not args.peer_python and {"step", "finetune", "inference"}.intersection(args.only):
        parser.error("give the Python that has the peers (--peer_python); `make bench` does")
    return args


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the selected comparisons and merges their rows into the results."""
    args = _parse(arguments)
    results: Rows = json.loads(args.results.read_text()) if args.results.exists() else {}
    where = f"{place()}, Python {platform.python_version()}"
    with tempfile.TemporaryDirectory() as folder:
        benchmarks = Benchmarks(args, Path(folder))
        for name in args.only:
            rows: Rows = getattr(benchmarks, name)()
            for found in rows.values():
                found |= {"date": datetime.date.today().isoformat(), "machine": where}
            results |= rows
            args.results.write_text(json.dumps(results, indent=2) + "\n")
    for name, found in results.items():
        peer = (
            f"peer {found['peer']:.4g}, ratio {found['ratio']:.2f}" if found["peer"] else "no peer"
        )
        print(f"{name:32s} ours {found['ours']:.4g} {found['unit']}, {peer}")
