"""Measures what writing examples costs, and computes from that what larger corpora take.

  python -m benchmarks.scale --input='texts/*.txt' --vocab=vocab.txt

Costs are seconds of processors, so that other programs on the machine matter little. They are the
sum of a start, of so much for a byte of text (reading, splitting, tokenizing) and of so much for an
example (pairs, masks, encoding, writing); runs with dupe factors of 1 and 5 tell the two apart.
"""

import argparse
import glob
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.corpus import reader
from pipelines.pretraining import sharding, token_store

_FACTORS = (1, 5)
_PREDICTIONS = {128: 20, 512: 77}
# Words of the corpora to plan for; of web text, bytes.
WORDS, WEB_BYTES = 3.3e9, 1e12
_FILES_A_CHUNK = 3  # of the token store


class Cost(NamedTuple):
    """What a command took."""

    processor_seconds: float
    seconds: float


def measure(*words: str) -> Cost:
    """Runs a command of bert-tf and measures it.

    Raises:
      RuntimeError: it failed.
    """
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "bert_tf", *words], capture_output=True, text=True, check=False
    )
    after, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - begin
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}:\n{done.stderr[-2000:]}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        f"$ bert-tf {' '.join(words)}\n   {used:.1f} s of processors, {seconds:.1f} s", flush=True
    )
    return Cost(used, seconds)


def _write(
    text: tuple[str, str], vocab: str, output: str, length: int, factor: int, workers: int
) -> tuple[Cost, dict[str, Any]]:
    cost = measure(
        *("write-examples", *text, f"--vocab={vocab}", f"--output={output}"),
        *(f"--max_seq_length={length}", f"--max_predictions_per_seq={_PREDICTIONS[length]}"),
        *(f"--dupe_factor={factor}", f"--workers={workers}"),
    )
    return cost, json.loads(Path(output, "manifest.json").read_text("utf-8"))


def rates(pattern: str, file_format: str, vocab: str, folder: str) -> dict[str, Any]:
    """The measured costs: of the start, of a byte of text, and by length of an example."""
    text = (f"--input={pattern}", f"--format={file_format}")
    names = glob.glob(pattern)
    size = sum(Path(name).stat().st_size for name in names)
    words = sum(len(Path(name).read_text("utf-8").split()) for name in names)
    little = Path(folder, "little.txt")
    little.write_text("A short text.\nIt has an end.\n\nAnother one.\nIt ends as well.\n")
    start, _ = _write(
        (f"--input={little}", "--format=sentences"), vocab, f"{folder}/little", 128, 1, 1
    )
    found: dict[str, Any] = {"start": start.processor_seconds, "bytes_a_word": size / words}
    for length in _PREDICTIONS:
        runs = [_write(text, vocab, f"{folder}/{length}-{f}", length, f, 1) for f in _FACTORS]
        (once, one), (often, many) = runs
        records = [manifest["train"]["records"] for _, manifest in runs]
        stored = sum(shard["bytes"] for shard in many["train"]["shards"])
        each = (often.processor_seconds - once.processor_seconds) / (records[1] - records[0])
        rest = once.processor_seconds - start.processor_seconds - records[0] * each
        found[f"{length}"] = {
            "seconds_a_byte": rest / size,
            "seconds_an_example": each,
            "bytes_an_example": stored / records[1],
            "examples_a_byte": records[1] / _FACTORS[1] / size,
        }
        for name in ("tokens", "documents"):
            found[f"{name}_a_byte"] = one["text"][name] / size
    alone, _ = runs[0]
    both, _ = _write(text, vocab, f"{folder}/two", length, 1, 2)
    found["speed_of_two_workers"] = alone.seconds / both.seconds
    learned = measure(
        "learn-vocabulary", *text, f"--output={folder}/vocab.txt", "--vocab_size=30000"
    )
    found["vocabulary_seconds_a_byte"] = (
        learned.processor_seconds - start.processor_seconds
    ) / size
    return found


def planned(found: dict[str, Any], size: float, factor: int) -> dict[str, Any]:
    """What a corpus takes.

    Args:
      found: what `rates` measured.
      size: bytes of text.
      factor: the dupe factor.
    """
    tokens = found["tokens_a_byte"] * size
    count = min(tokens // sharding._SHARD_TOKENS, sharding._MAX_SHARDS)
    chunks = size / token_store._CHUNK_CHARACTERS
    sections = found["documents_a_byte"] * size + size / reader.SECTION_CHARACTERS
    result: dict[str, Any] = {
        "text_gigabytes": size / 1e9,
        "tokens_billions": tokens / 1e9,
        "dupe_factor": factor,
        "shards": int(count),
        "tokens_a_shard_millions": tokens / count / 1e6,
        "token_store_gigabytes": token_store.id_dtype(1 << 15).itemsize * tokens / 1e9,
        "index_gigabytes": sections * token_store._ROW.itemsize / 1e9,
        "files_opened_millions": count * chunks * _FILES_A_CHUNK / 1e6,
    }
    for length in _PREDICTIONS:
        rate = found[f"{length}"]
        examples = rate["examples_a_byte"] * size * factor
        seconds = rate["seconds_a_byte"] * size + rate["seconds_an_example"] * examples
        result[f"{length}"] = {
            "examples_millions": examples / 1e6,
            "gigabytes": examples * rate["bytes_an_example"] / 1e9,
            "processor_hours": seconds / 3600,
        }
    return result


def main() -> None:
    """Measures, and prints rates and plans as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--input", required=True, help="glob of the text")
    parser.add_argument("--format", default="auto", help="of the text")
    parser.add_argument("--vocab", required=True)
    parser.add_argument("--results", default="benchmarks/scale.json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = rates(args.input, args.format, args.vocab, folder)
    corpora = (found["bytes_a_word"] * WORDS, WEB_BYTES)
    plans = [planned(found, size, factor) for size in corpora for factor in _FACTORS]
    text = json.dumps({"measured": found, "planned": plans}, indent=2)
    Path(args.results).write_text(f"{text}\n", "utf-8")
    print(text)


if __name__ == "__main__":
    main()
