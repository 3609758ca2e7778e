"""Measures side by side with peers, and writes benchmarks/results.json.

Each comparison runs ours and the peer's one after the other in the same run, and reports the
ratio. Peers run in an environment of their own (benchmarks/requirements.txt); the original BERT
code is taken from a clone that the user names, and left out if none is named.
"""

import datetime
import json
import os
import platform
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from absl import flags

from benchmarks import answers, memory
from benchmarks.processes import json_of, row
from pipelines.common.errors import InputError
from pipelines.corpus import builtin

_PEER_PYTHON = flags.DEFINE_string("peer_python", None, "Python with the peers installed.")
_CLONE = flags.DEFINE_string("bert_clone", "", "A clone of google-research/bert.")
_VOCAB = flags.DEFINE_string("vocab", "", "An uncased vocab.txt; default: learned.")
_GLUE = flags.DEFINE_string("glue", "", "Folder of GLUE; none: fine-tuning is left out.")
_RESULTS = flags.DEFINE_string("results", "benchmarks/results.json", "File of the results.")
_ONLY = flags.DEFINE_list(
    "only",
    [],
    "tokenizer, writer, memory, packing, step, finetune, finetune_parts, inference; default all.",
)
_RTE_MODEL = flags.DEFINE_string("rte_model", "", "A model fine-tuned for RTE, for inference.")

_PEERS = Path("benchmarks/peers")
_COMMAND = (sys.executable, "-m", "bert_tf")
_WRITER_COPIES = 4
_MEMORY_BYTES = (100_000_000, 1_000_000_000)
# Under glibc, PyTorch is faster when memory is kept between allocations.
_KEEP_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "-1",
    "MALLOC_TOP_PAD_": "268435456",
}


def _peer_command(script: str) -> list[str]:
    """The command of a peer's script.

    Raises:
      InputError: there is no Python with the peers.
    """
    if not _PEER_PYTHON.value:
        raise InputError("name the Python that has the peers (--peer_python); make bench does.")
    return [_PEER_PYTHON.value, str(_PEERS / script)]


def _peer(script: str, *arguments: str, **environment: str) -> dict[str, Any]:
    return json_of([*_peer_command(script), *arguments], **environment)


def _original(*arguments: str) -> dict[str, Any]:
    return json_of(
        [
            sys.executable,
            str(_PEERS / "create_pretraining_data.py"),
            f"--clone={_CLONE.value}",
            *arguments,
        ]
    )


def _repeat(source: Path, target: Path, size: int) -> None:
    """Writes shuffled copies of a corpus's documents until there are `size` bytes."""
    documents = source.read_text("utf-8").split("\n\n")
    rng = random.Random(0)
    with target.open("w", encoding="utf-8") as file:
        while file.tell() < size:
            rng.shuffle(documents)
            file.write("\n\n".join(documents) + "\n\n")


def _write_command(corpus: Path, vocab: str, output: Path) -> list[str]:
    return [
        *(*_COMMAND, "write-examples"),
        f"--input={corpus}",
        f"--vocab={vocab}",
        f"--output={output}",
        "--dupe_factor=5",
        "--workers=2",
    ]


def tokenizer(corpus: Path, vocab: str, folder: Path) -> dict[str, Any]:
    """Our tokenizer and the original's, on one core."""
    text = [f"--input={corpus}", f"--vocab={vocab}"]
    ours = json_of([sys.executable, "-m", "benchmarks.tokenizer", *text])
    output = f"--output={folder}/unused"
    peer = _original(*text, "--tokenize_only", output) if _CLONE.value else {}
    return {
        "tokenizer": row(
            ours["megabytes_per_second"],
            peer.get("megabytes_per_second"),
            "MB/s",
            "uncased tokenization of the built-in corpus on one core; peer: FullTokenizer of "
            "google-research/bert",
        )
    }


def writer(corpus: Path, vocab: str, folder: Path) -> dict[str, Any]:
    """Our example writer, start to end, and the original's."""
    text = folder / "writer.txt"
    _repeat(corpus, text, _WRITER_COPIES * corpus.stat().st_size)
    usage = memory.measure(_write_command(text, vocab, folder / "writer"))
    print("  ", usage.output.strip().splitlines()[-1], flush=True)
    records = json.loads((folder / "writer" / "manifest.json").read_text())["train"]["records"]
    seconds = float(re.findall(r"([\d.]+) s$", usage.output.strip())[-1])
    peer = {}
    if _CLONE.value:
        output = f"--output={folder}/original.tfrecord"
        peer = _original(f"--input={text}", f"--vocab={vocab}", output, "--dupe_factor=5")
    return {
        "writer": row(
            records / seconds,
            peer.get("instances_per_second"),
            "instances/s",
            f"{text.stat().st_size / 1e6:.0f} MB of text, length 128, 20 predictions, dupe_factor "
            "5, 2 workers, starting them included; peer: create_pretraining_data.py of "
            "google-research/bert (one process)",
        )
    }


def writer_memory(corpus: Path, vocab: str, folder: Path) -> dict[str, Any]:
    """The writer's peak memory on a small and on a large corpus."""
    rows = {}
    for size in _MEMORY_BYTES:
        text, output = folder / "memory.txt", folder / f"memory-{size}"
        _repeat(corpus, text, size)
        usage = memory.measure(_write_command(text, vocab, output))
        print("  ", f"{usage.peak_bytes / 2**30:.2f} GiB,", usage.output.strip().splitlines()[-1])
        rows[f"writer_memory_{size / 1e9:.1f}_GB"] = row(
            usage.peak_bytes / 2**30,
            None,
            "GiB",
            f"peak of the proportional set sizes of all processes, {text.stat().st_size / 1e9:.2f} "
            "GB of text, 2 workers",
        )
        subprocess.run(["rm", "-rf", str(output)], check=True)
    return rows


def packing(corpus: Path, vocab: str, folder: Path) -> dict[str, Any]:
    """Tokens of text a second of the step: of packed sequences, and of pairs and of spans."""
    examples = {
        "pairs": ["--objective=mlm_nsp"],
        "spans": ["--objective=mlm"],
        "packed": ["--objective=mlm", "--sequences=packed"],
    }
    for name, kind in examples.items():
        command = _write_command(corpus, vocab, folder / name)
        subprocess.run([*command, "--dupe_factor=1", *kind], check=True, capture_output=True)
    rows = {}
    for name in ("pairs", "spans"):
        folders = (f"--padded={folder}/{name}", f"--packed={folder}/packed")
        found = json_of([sys.executable, "-m", "benchmarks.packing", *folders])
        rows[f"packing_vs_{name}"] = row(
            found["packed"]["tokens_per_second"],
            found["padded"]["tokens_per_second"],
            "tokens of text/s",
            "built-in corpus, length 128, the training step of 6 layers, 384 wide, masked LM only, "
            f"in turn: packed sequences ({found['packed']['tokens_a_sequence']:g} tokens of text "
            f"each), compared with {name} ({found['padded']['tokens_a_sequence']:g})",
        )
    return rows


def _fastest(results: Iterable[dict[str, Any]]) -> float:
    return max(result["sequences_per_second"] for result in results)


def step(*_: Any) -> dict[str, Any]:
    """Our pre-training step and those of the peers, each in its faster precision."""
    shape = "6 layers, 384 wide, 12 heads, batch 32, length 128, 20 predictions, training step"
    ours = {
        precision: json_of([sys.executable, "-m", "benchmarks.step", f"--precision={precision}"])
        for precision in ("float32", "mixed_bfloat16")
    }
    keras_hub = {
        precision: _peer("keras_hub_step.py", f"--precision={precision}")
        for precision in ("float32", "mixed_bfloat16")
    }
    hugging_face = {
        (precision, head, bool(keep)): _peer(
            "hugging_face_step.py", f"--precision={precision}", f"--head={head}", **keep
        )
        for precision, head, keep in (
            ("float32", "all", {}),
            ("bfloat16", "all", {}),
            ("bfloat16", "all", _KEEP_MEMORY),
            ("bfloat16", "predicted", _KEEP_MEMORY),
        )
    }

    fastest = _fastest(ours.values())
    as_shipped = [hugging_face[p, "all", False] for p in ("float32", "bfloat16")]
    return {
        "step_keras_hub": row(
            fastest,
            _fastest(keras_hub.values()),
            "sequences/s",
            f"{shape}, each in its faster precision; peer: KerasHub BertMaskedLM (which has no "
            "next-sentence loss)",
        ),
        "step_hugging_face": row(
            fastest,
            _fastest(as_shipped),
            "sequences/s",
            f"{shape}, each in its faster precision; peer: Hugging Face BertForPreTraining on "
            "PyTorch, as it comes",
        ),
        "step_hugging_face_malloc": row(
            fastest,
            hugging_face["bfloat16", "all", True]["sequences_per_second"],
            "sequences/s",
            "the same peer in bfloat16, with malloc told to keep memory",
        ),
        "step_hugging_face_predicted": row(
            fastest,
            hugging_face["bfloat16", "predicted", True]["sequences_per_second"],
            "sequences/s",
            "the same again, rewritten to compute logits at the 20 predicted positions only",
        ),
        "step_float32": row(
            ours["float32"]["sequences_per_second"],
            keras_hub["float32"]["sequences_per_second"],
            "sequences/s",
            f"{shape}, both in float32; peer: KerasHub BertMaskedLM",
        ),
    }


def _released_model() -> str:
    """The folder of the weights that the peers' environment has."""
    where = [*_peer_command("hugging_face_outputs.py"), "where"]
    return subprocess.run(where, capture_output=True, text=True, check=True).stdout.strip()


def finetune(_: Any, __: Any, folder: Path) -> dict[str, Any]:
    """MRPC from process start to dev predictions, ours and the usual recipe of the peer."""
    if not _GLUE.value:
        return {}
    model = _released_model()
    seconds, accuracy = _finetune_mrpc(model, folder / "ours", [])
    peer = _peer(
        "hugging_face_finetune.py",
        *("--task", "mrpc", "--data", f"{_GLUE.value}/MRPC", "--model", model, "--seed", "1"),
        *("--pad", "max", "--precision", "float32", "--out", f"{folder}/peer.json"),
    )
    compared = (
        f"MRPC, 3 epochs, process start to dev predictions, in {seconds:.0f} s (accuracy "
        f"{accuracy:.3f}); peer: Hugging Face, padded to 128, float32, in "
        f"{peer['seconds_total']:.0f} s (accuracy {peer['best']['accuracy']:.3f})"
    )
    rate = 3600 / peer["seconds_total"]
    return {"finetune_mrpc": row(3600 / seconds, rate, "runs/hour", compared)}


def finetune_parts(_: Any, __: Any, folder: Path) -> dict[str, Any]:
    """What each part brings to MRPC from start to end: ratios to the plain graph."""
    if not _GLUE.value:
        return {}
    model, rows, first = _released_model(), {}, None
    for name, flags_of_part in (
        ("graph", ["--fixed_length", "--precision=float32", "--xla=off"]),
        ("buckets", ["--precision=float32", "--xla=off"]),
        ("fused", ["--precision=float32"]),
        ("bfloat16", []),
    ):
        seconds, accuracy = _finetune_mrpc(model, folder / name, flags_of_part)
        first = first or seconds
        compared = (
            f"MRPC as above, {' '.join(flags_of_part) or 'all parts'}: {seconds:.0f} s, accuracy "
            f"{accuracy:.3f}; compared with our plain graph, padded to 128, float32"
        )
        rows[f"finetune_{name}"] = row(3600 / seconds, 3600 / first, "runs/hour", compared)
    return rows


def _finetune_mrpc(model: str, output: Path, more: list[str]) -> tuple[float, float]:
    """Seconds of the whole process, and the dev accuracy."""
    start = time.perf_counter()
    command = [
        *(*_COMMAND, "finetune", "--task=mrpc"),
        *(f"--{split}={_GLUE.value}/MRPC/{split}.tsv" for split in ("train", "dev")),
        *(f"--init={model}", f"--output={output}", f"--cache={output}-cache", *more),
    ]
    print("$", " ".join(command), flush=True)
    subprocess.run(command, check=True, capture_output=True)
    seconds = time.perf_counter() - start
    report = json.loads((output / "report.json").read_text())
    print(f"   {seconds:.1f} s, {report['metrics']['median']}", flush=True)
    return seconds, report["metrics"]["median"]["accuracy"]


def inference(_: Any, __: Any, folder: Path) -> dict[str, Any]:
    """Text pairs to logits, tokenization included, with the same fine-tuned weights."""
    if not (_GLUE.value and _RTE_MODEL.value):
        return {}
    return answers.compare(_RTE_MODEL.value, f"{_GLUE.value}/RTE/dev.tsv", folder, _peer)


def main() -> None:
    """Runs the benchmarks asked for and merges their results into the file."""
    chosen = {
        "tokenizer": tokenizer,
        "writer": writer,
        "memory": writer_memory,
        "packing": packing,
        "step": step,
        "finetune": finetune,
        "finetune_parts": finetune_parts,
        "inference": inference,
    }
    names = _ONLY.value or list(chosen)
    results_file = Path(_RESULTS.value)
    results = json.loads(results_file.read_text()) if results_file.exists() else {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        corpus = folder / "corpus.txt"
        vocab = _VOCAB.value or str(folder / "vocab.txt")
        if not {"step", "finetune", "finetune_parts", "inference"}.issuperset(names):
            builtin.write(str(corpus))
            if not _VOCAB.value:
                learn = [*_COMMAND, "learn-vocabulary", f"--input={corpus}", f"--output={vocab}"]
                subprocess.run(learn, check=True)
        for name in names:
            rows = chosen[name](corpus, vocab, folder)
            machine = (
                f"{os.cpu_count()} cores, {platform.machine()}, Python {sys.version.split()[0]}"
            )
            for found in rows.values():
                found |= {"date": datetime.date.today().isoformat(), "machine": machine}
            results |= rows
            results_file.write_text(json.dumps(results, indent=2) + "\n")
    for name, found in results.items():
        peer = (
            f"peer {found['peer']:.4g}, ratio {found['ratio']:.2f}" if found["peer"] else "no peer"
        )
        print(f"{name:32s} ours {found['ours']:.4g} {found['unit']}, {peer}")
