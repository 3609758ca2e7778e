r"""Compares similarities of texts by embeddings, with ours and with sentence-transformers.

  python -m benchmarks.similarity --peer_python=.venv-peers/bin/python --pairs=glue/STS-B/dev.tsv \
      --work=/tmp/similarity all-MiniLM-L6-v2 models/all-mpnet-base-v2

Prints, for each model, Spearman's correlation of the cosines with the scores of people (times 100),
and the largest difference between two cosines.
"""

import argparse
import csv
import subprocess
import sys
from pathlib import Path

import numpy as np
import scipy.stats

_PEER = """
import sys
import numpy as np
from sentence_transformers import SentenceTransformer
model, texts, output = sys.argv[1:]
lines = open(texts, encoding="utf-8", newline="").read().split("\\n")[:-1]
np.save(output, SentenceTransformer(model, device="cpu").encode(lines, normalize_embeddings=True))
"""


def main() -> None:
    """Embeds the pairs with both, and prints a line for each model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", help="folders or names of models")
    parser.add_argument("--pairs", required=True, help="a table of STS-B, with scores")
    parser.add_argument("--peer_python", required=True)
    parser.add_argument("--work", required=True, type=Path)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    with open(args.pairs, encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    texts = [row[name] for name in ("sentence1", "sentence2") for row in rows]
    (args.work / "texts.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    scores = [float(row["score"]) for row in rows]
    for model in args.models:
        cosines = [_cosines(model, program, args) for program in ("ours", "sentence-transformers")]
        found = [100 * scipy.stats.spearmanr(scores, each).statistic for each in cosines]
        difference = np.abs(cosines[0] - cosines[1]).max()
        print(
            f"{model}: {len(rows):,} pairs, ours {found[0]:.2f}, sentence-transformers "
            f"{found[1]:.2f}; cosines differ by at most {difference:.1e}"
        )


def _cosines(model: str, program: str, args: argparse.Namespace) -> np.ndarray:
    """The cosine of each pair, float64 [pairs]."""
    texts, output = args.work / "texts.txt", args.work / f"{Path(model).name}-{program}.npy"
    output.unlink(missing_ok=True)
    if program == "ours":
        command = [
            *(sys.executable, "-m", "bert_tf", "embed", f"--model={model}", f"--input={texts}"),
            *(f"--output={output}", "--normalize"),
        ]
    else:
        command = [args.peer_python, "-c", _PEER, model, str(texts), str(output)]
    subprocess.run(command, check=True)
    first, second = np.split(np.load(output).astype(np.float64), 2)
    return (first * second).sum(1)


if __name__ == "__main__":
    main()
