"""The tasks that `hugging_face_finetune` trains: what is read, encoded, predicted and scored."""

import argparse
import collections
import csv
import dataclasses
import json
import re
import string
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.stats
import sklearn.metrics
import transformers

Example = dict[str, Any]


Outputs = list[tuple[np.ndarray, ...]]


IGNORED = -100


INPUTS = ("input_ids", "token_type_ids", "attention_mask")


DOC_STRIDE = 128  # tokens that two windows of a paragraph share: the library's meaning


MAX_QUERY = 64  # tokens of a question


MAX_ANSWER = 30  # tokens of an answer


N_BEST = 20  # starts and ends of answers to pair up


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


def squad_questions(args: argparse.Namespace, split: str) -> list[dict]:
    """The questions of a split of SQuAD 1.1, each with its context."""
    (path,) = args.data.glob(f"{split}-v1.1*.json")
    return [
        {"context": paragraph["context"], **question}
        for article in json.loads(path.read_text("utf-8"))["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]


def squad_score(predicted: list, questions: list[dict]) -> dict[str, float]:
    """F1 and exact match of the official script of version 1.1."""
    f1, exact = [], []
    for text, question in zip(predicted, questions, strict=True):
        golds = [answer["text"] for answer in question["answers"]]
        f1.append(max(token_f1(text, gold) for gold in golds))
        exact.append(max(normalized(text) == normalized(gold) for gold in golds))
    return {"f1": float(np.mean(f1)), "exact_match": float(np.mean(exact))}


def squad1(args: argparse.Namespace, tokenizer: Callable) -> Task:
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

    train, dev = squad_questions(args, "train")[: args.limit], squad_questions(args, "dev")
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

    head = transformers.AutoModelForQuestionAnswering
    return Task(
        examples, as_examples(dev_windows), head, 2, decode, lambda found: squad_score(found, dev)
    )


TASKS = {**dict.fromkeys(GLUE, glue), "pos": pos, "choice": choice, "squad1": squad1}
