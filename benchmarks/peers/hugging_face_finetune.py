"""Fine-tunes a BERT with Hugging Face transformers on PyTorch and scores it on the dev set.

The peer is the usual recipe in a plain loop: an AutoModel with a task's head, AdamW (weight decay
0.01, but not on biases and LayerNorm), a learning rate that warms up over the first 10 % of the
steps and then falls linearly to zero, the gradient norm clipped at 1.0, and dropout 0.1 as the
model's config says. The dev set is scored after each epoch.

--pad max pads every row to --max_length, as run_glue.py does. --pad longest makes batches of rows
of similar lengths, as group_by_length of the library's Trainer does but in random order, and pads
each to its longest row.

The last line of stdout is the JSON object that --out gets. Beside it, in a file that ends in
.predictions, are the last epoch's predictions for the dev set, one JSON value a line.
"""
# ruff: noqa: E402

import time

START = time.time()  # before the imports, which a user has to wait for too

import argparse
import collections
import csv
import dataclasses
import json
import os
import random
import re
import string
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats
import sklearn.metrics
import torch
import transformers

Example = dict[str, Any]
Outputs = list[tuple[np.ndarray, ...]]

IGNORED = -100
INPUTS = ("input_ids", "token_type_ids", "attention_mask")
DOC_STRIDE = 128  # tokens that two windows of a paragraph share: the library's meaning
MAX_QUERY = 64  # tokens of a question
MAX_ANSWER = 30  # tokens of an answer
N_BEST = 20  # starts and ends of answers to pair up
MEGABATCH = 50  # batches whose rows are sorted by length together, as Trainer does
GLUE = {  # whether there is a header, the columns of the text, the column of the label
    "cola": (False, [3], 1),
    "sst2": (True, [0], 1),
    "mrpc": (True, [3, 4], 0),
    "stsb": (True, [7, 8], 9),
    "rte": (True, [1, 2], 3),
}


@dataclasses.dataclass
class Task:
    """What a task trains on, with which head, and how its dev set is predicted and scored."""

    train: list[Example]
    dev: list[Example]
    head: type
    labels: int
    decode: Callable[[Outputs], list]
    score: Callable[[list], dict[str, float]]  # the main metric first


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", choices=(*GLUE, "pos", "choice", "squad1"), required=True)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the task's files")
    parser.add_argument("--model", required=True, help="a folder with weights and tokenizer")
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=5e-5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pad", choices=("max", "longest"), default="max")
    parser.add_argument("--max_length", type=int, help="default: 384 for squad1, else 128")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--limit", type=int, help="train on the first so many rows only")
    args = parser.parse_args()
    args.max_length = args.max_length or (384 if args.task == "squad1" else 128)
    return args


def as_examples(columns: dict[str, list], **targets: list) -> list[Example]:
    """One dict an example, from a list of all examples' values for each name."""
    columns = {name: columns[name] for name in INPUTS} | targets
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def glue(args: argparse.Namespace, tokenizer: Callable) -> Task:
    header, texts, label = GLUE[args.task]
    regression = args.task == "stsb"

    def read(split: str) -> list[list[str]]:
        # Quotation marks are text in these files, and a tab always ends a field.
        lines = (args.data / f"{split}.tsv").read_text("utf-8-sig").rstrip("\n").split("\n")
        return [line.split("\t") for line in lines[int(header) :]]

    train, dev = read("train"), read("dev")
    names = sorted({row[label] for row in train})

    def targets(rows: list[list[str]]) -> list:
        return [float(row[label]) if regression else names.index(row[label]) for row in rows]

    def encode(rows: list[list[str]]) -> list[Example]:
        columns = [[row[column] for row in rows] for column in texts]
        encoded = tokenizer(*columns, truncation=True, max_length=args.max_length)
        return as_examples(encoded, labels=targets(rows))

    def decode(outputs: Outputs) -> list:
        return [float(out[0]) if regression else int(out.argmax()) for (out,) in outputs]

    def score(predicted: list) -> dict[str, float]:
        gold = targets(dev)
        if regression:
            return {
                "pearson": scipy.stats.pearsonr(gold, predicted)[0],
                "spearman": scipy.stats.spearmanr(gold, predicted)[0],
            }
        if args.task == "cola":
            return {"matthews": sklearn.metrics.matthews_corrcoef(gold, predicted)}
        scores = {"accuracy": sklearn.metrics.accuracy_score(gold, predicted)}
        if args.task == "mrpc":
            scores["f1"] = sklearn.metrics.f1_score(gold, predicted)
        return scores

    head = transformers.AutoModelForSequenceClassification
    labels = 1 if regression else len(names)
    return Task(encode(train[: args.limit]), encode(dev), head, labels, decode, score)


def pos(args: argparse.Namespace, tokenizer: Callable) -> Task:
    def read(split: str) -> list[list[list[str]]]:
        """Sentences of words, each word the columns of its line."""
        (path,) = args.data.glob(f"*{split}.conllu")
        blocks = path.read_text("utf-8").strip().split("\n\n")
        lines = [[line.split("\t") for line in block.split("\n")] for block in blocks]
        # Comments, multiword tokens (1-2) and empty nodes (1.1) have no plain number.
        return [[word for word in sentence if word[0].isdigit()] for sentence in lines]

    train, dev = read("train")[: args.limit], read("dev")
    names = sorted({word[3] for sentence in train for word in sentence})

    def encode(sentences: list[list[list[str]]]) -> tuple[list[Example], list[dict[int, int]]]:
        """The examples, and in each the place of each word's first token."""
        forms = [[word[1] for word in sentence] for sentence in sentences]
        encoded = tokenizer(
            forms, is_split_into_words=True, truncation=True, max_length=args.max_length
        )
        labels, firsts = [], []
        for index, sentence in enumerate(sentences):
            words = encoded.word_ids(index)
            first = {word: words.index(word) for word in words if word is not None}
            labels.append([IGNORED] * len(words))
            for word, place in first.items():
                tag = sentence[word][3]
                labels[-1][place] = names.index(tag) if tag in names else IGNORED
            firsts.append(first)
        return as_examples(encoded, labels=labels), firsts

    dev_examples, dev_firsts = encode(dev)

    def decode(outputs: Outputs) -> list:
        """A tag for each word; none, which is wrong, for a word that truncation cut off."""
        predicted = []
        for (out,), first, sentence in zip(outputs, dev_firsts, dev, strict=True):
            tags = {word: names[out[place].argmax()] for word, place in first.items()}
            predicted.append([tags.get(word) for word in range(len(sentence))])
        return predicted

    def score(predicted: list) -> dict[str, float]:
        right = [
            tag == word[3]
            for tags, sentence in zip(predicted, dev, strict=True)
            for tag, word in zip(tags, sentence, strict=True)
        ]
        return {"accuracy": np.mean(right)}

    head = transformers.AutoModelForTokenClassification
    return Task(encode(train)[0], dev_examples, head, len(names), decode, score)


def choice(args: argparse.Namespace, tokenizer: Callable) -> Task:
    def read(split: str) -> list[list[str]]:
        with open(args.data / f"arc_easy_{split}.csv", encoding="utf-8", newline="") as file:
            return [row for row in csv.reader(file) if row[5] != "E"]  # choice E is not there

    def targets(rows: list[list[str]]) -> list[int]:
        return ["ABCD1234".index(row[5]) % 4 for row in rows]

    def encode(rows: list[list[str]]) -> list[Example]:
        questions = [row[0] for row in rows for _ in range(4)]
        choices = [text for row in rows for text in row[1:5]]
        encoded = tokenizer(questions, choices, truncation=True, max_length=args.max_length)
        grouped = {
            name: [encoded[name][i : i + 4] for i in range(0, len(choices), 4)] for name in INPUTS
        }
        return as_examples(grouped, labels=targets(rows))

    def decode(outputs: Outputs) -> list:
        return [int(out.argmax()) for (out,) in outputs]

    train, dev = read("train")[: args.limit], read("dev")

    def score(predicted: list) -> dict[str, float]:
        return {"accuracy": sklearn.metrics.accuracy_score(targets(dev), predicted)}

    head = transformers.AutoModelForMultipleChoice
    return Task(encode(train), encode(dev), head, 2, decode, score)


def normalized(answer: str) -> str:
    """Lower case, without punctuation and articles, single spaces: as SQuAD's evaluation does."""
    answer = "".join(char for char in answer.lower() if char not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", answer).split())


def token_f1(predicted: str, gold: str) -> float:
    predicted_words, gold_words = normalized(predicted).split(), normalized(gold).split()
    common = (collections.Counter(predicted_words) & collections.Counter(gold_words)).total()
    return 2 * common / (len(predicted_words) + len(gold_words)) if common else 0.0


def best_span(starts: np.ndarray, ends: np.ndarray, allowed: np.ndarray) -> tuple[float, int, int]:
    """The best score of an answer in a window, and its first and last token."""
    first = allowed[np.argsort(-starts[allowed])[:N_BEST]]
    last = allowed[np.argsort(-ends[allowed])[:N_BEST]]
    scores = starts[first][:, None] + ends[last]
    lengths = last - first[:, None] + 1
    scores[(lengths < 1) | (lengths > MAX_ANSWER)] = -np.inf
    i, j = np.unravel_index(scores.argmax(), scores.shape)
    return float(scores[i, j]), int(first[i]), int(last[j])


def squad1(args: argparse.Namespace, tokenizer: Callable) -> Task:
    def read(split: str) -> list[dict]:
        (path,) = args.data.glob(f"{split}-v1.1*.json")
        return [
            {"context": paragraph["context"], **question}
            for article in json.loads(path.read_text("utf-8"))["data"]
            for paragraph in article["paragraphs"]
            for question in paragraph["qas"]
        ]

    def encode(questions: list[dict]) -> transformers.BatchEncoding:
        """The windows of all questions."""
        texts = [question["question"] for question in questions]
        cut = tokenizer(
            texts,
            add_special_tokens=False,
            truncation=True,
            max_length=MAX_QUERY,
            return_offsets_mapping=True,
        )["offset_mapping"]
        return tokenizer(
            [text[: offsets[-1][1]] for text, offsets in zip(texts, cut, strict=True)],
            [question["context"] for question in questions],
            truncation="only_second",
            max_length=args.max_length,
            stride=DOC_STRIDE,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )

    def answer_tokens(windows: transformers.BatchEncoding, index: int) -> tuple[int, int]:
        """The answer's first and last token; [CLS] twice if it is not all in the window."""
        answer = train[windows["overflow_to_sample_mapping"][index]]["answers"][0]
        begin = answer["answer_start"]
        first = windows.char_to_token(index, begin, 1)
        last = windows.char_to_token(index, begin + len(answer["text"]) - 1, 1)
        return (0, 0) if first is None or last is None else (first, last)

    train, dev = read("train")[: args.limit], read("dev")
    windows = encode(train)
    spans = [answer_tokens(windows, index) for index in range(len(windows["input_ids"]))]
    starts, ends = map(list, zip(*spans, strict=True))
    examples = as_examples(windows, start_positions=starts, end_positions=ends)
    dev_windows = encode(dev)

    def decode(outputs: Outputs) -> list:
        best = [(-np.inf, "")] * len(dev)
        for index, (starts, ends) in enumerate(outputs):
            question = dev_windows["overflow_to_sample_mapping"][index]
            paragraph = np.flatnonzero(np.array(dev_windows.sequence_ids(index)) == 1)
            score, first, last = best_span(starts, ends, paragraph)
            if score > best[question][0]:
                offsets = dev_windows["offset_mapping"][index]
                text = dev[question]["context"][offsets[first][0] : offsets[last][1]]
                best[question] = (score, text)
        return [text for _, text in best]

    def score(predicted: list) -> dict[str, float]:
        f1, exact = [], []
        for text, question in zip(predicted, dev, strict=True):
            golds = [answer["text"] for answer in question["answers"]]
            f1.append(max(token_f1(text, gold) for gold in golds))
            exact.append(max(normalized(text) == normalized(gold) for gold in golds))
        return {"f1": np.mean(f1), "exact_match": np.mean(exact)}

    head = transformers.AutoModelForQuestionAnswering
    return Task(examples, as_examples(dev_windows), head, 2, decode, score)


def length(example: Example) -> int:
    ids = example["input_ids"]
    return max(map(len, ids)) if isinstance(ids[0], list) else len(ids)


def batches(examples: list[Example], args: argparse.Namespace, epoch: int) -> list[list[int]]:
    """An epoch's batches of training rows, in random order."""
    shuffle = random.Random(f"{args.seed} {epoch}")
    order = shuffle.sample(range(len(examples)), len(examples))
    if args.pad == "max":
        return [order[i : i + args.batch] for i in range(0, len(order), args.batch)]
    batched = []
    for i in range(0, len(order), MEGABATCH * args.batch):
        near = sorted(order[i : i + MEGABATCH * args.batch], key=lambda row: length(examples[row]))
        batched += [near[j : j + args.batch] for j in range(0, len(near), args.batch)]
    shuffle.shuffle(batched)
    return batched


def padded(value: Any, width: int, fill: int) -> Any:
    """The value with its innermost lists made as long as the width."""
    if not isinstance(value, list):
        return value
    if isinstance(value[0], list):
        return [padded(row, width, fill) for row in value]
    return value + [fill] * (width - len(value))


def collate(examples: list[Example], args: argparse.Namespace) -> dict[str, torch.Tensor]:
    width = args.max_length if args.pad == "max" else max(map(length, examples))
    return {
        name: torch.tensor(
            [padded(row[name], width, IGNORED if name == "labels" else 0) for row in examples]
        )
        for name in examples[0]
    }


def optimizer_of(model: torch.nn.Module, lr: float) -> torch.optim.Optimizer:
    """AdamW that decays all but the biases and the LayerNorms."""
    decayed, others = [], []
    for name, parameter in model.named_parameters():
        (others if name.endswith("bias") or "LayerNorm" in name else decayed).append(parameter)
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, fused=True)


def autocast(args: argparse.Namespace) -> torch.autocast:
    return torch.autocast("cpu", torch.bfloat16, enabled=args.precision == "bfloat16")


def predict(model: torch.nn.Module, examples: list[Example], args: argparse.Namespace) -> Outputs:
    """Each example's logits, in order; rows of similar lengths are computed together."""
    model.eval()
    order = sorted(range(len(examples)), key=lambda row: length(examples[row]))
    outputs = {}
    for i in range(0, len(order), args.batch):
        rows = order[i : i + args.batch]
        batch = collate([examples[row] for row in rows], args)
        inputs = {name: batch[name] for name in INPUTS}
        with torch.inference_mode(), autocast(args):
            logits = [out.float().numpy() for out in model(**inputs).to_tuple()]
        outputs |= zip(rows, zip(*logits, strict=True), strict=True)
    return [outputs[row] for row in range(len(examples))]


def train_epoch(
    model: torch.nn.Module,
    task: Task,
    optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
    order: list[list[int]],
    args: argparse.Namespace,
) -> float:
    """Trains on the batches and returns their mean loss."""
    model.train()
    losses = []
    for rows in order:
        batch = collate([task.train[row] for row in rows], args)
        with autocast(args):
            loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return float(np.mean(losses))


def main() -> None:
    args = parse_args()
    torch.set_num_threads(args.threads)
    transformers.set_seed(args.seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.model)
    read = {"pos": pos, "choice": choice, "squad1": squad1}.get(args.task, glue)
    task = read(args, tokenizer)
    model = task.head.from_pretrained(args.model, num_labels=task.labels, dtype=torch.float32)
    optimizer = optimizer_of(model, args.lr)
    steps = args.epochs * -(-len(task.train) // args.batch)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, steps // 10, steps)

    epochs, seconds_training = [], 0.0
    for epoch in range(args.epochs):
        begin = time.time()
        order = batches(task.train, args, epoch)
        loss = train_epoch(model, task, optimizer, schedule, order, args)
        seconds_training += time.time() - begin
        predicted = task.decode(predict(model, task.dev, args))
        lines = "".join(json.dumps(value) + "\n" for value in predicted)
        args.out.with_suffix(".predictions").write_text(lines, "utf-8")
        seconds_total = time.time() - START
        metrics = {name: round(float(value), 5) for name, value in task.score(predicted).items()}
        epochs.append({"epoch": epoch + 1, "loss": round(loss, 5), **metrics})
        print(f"after {seconds_total:.0f} s:", epochs[-1], file=sys.stderr, flush=True)

    main_metric = next(iter(metrics))
    result = {
        "peer": "hugging_face",
        "versions": {"transformers": transformers.__version__, "torch": torch.__version__},
        "task": args.task,
        "seed": args.seed,
        "settings": vars(args),
        "training_examples": len(task.train),
        "steps": steps,
        "main_metric": main_metric,
        "epochs": epochs,
        "final": metrics,
        "best": max(epochs, key=lambda scores: scores[main_metric]),
        "seconds_total": round(seconds_total, 1),
        "seconds_training": round(seconds_training, 1),
    }
    line = json.dumps(result, default=str)
    args.out.write_text(line + "\n", "utf-8")
    print(line)


if __name__ == "__main__":
    main()
