"""What the pictures show, computed by the code that they explain."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf import tasks
from bert_tf.export import sources
from bert_tf.inspection import attention, masked_guesses, tokens
from bert_tf.models.encoder import BertEncoder
from bert_tf.pretraining import milestones
from bert_tf.tasks.model import HeadShape
from bert_tf.tasks.numbered import TokenSequence
from bert_tf.training import progress
from pipelines.common import json_files
from pipelines.pretraining import masking
from pipelines.pretraining.makers import segments
from pipelines.pretraining.makers.base import TokenizedDocuments
from pipelines.pretraining.settings import ExampleSettings
from pipelines.tokenizers.base import Tokenizer

# The pair that most pictures are about.
PAIR = ("The penguin waddled.", "It was tired.")
# Its pronoun, and what the pronoun stands for: the head that links them is shown.
PRONOUN, MEANT = 7, 2
# A corpus of three documents, a sentence each.
CORPUS = (
    ("The penguin waddled.", "It was tired.", "Snow fell all night."),
    ("The soup is hot.", "Add the noodles.", "Stir it twice."),
    ("A lantern hung in the hall.", "Its light was green.", "Nobody had seen it."),
)
# Texts like those that `make pretrain` reads; the second follows the first, the third does not.
MASKED = ("Read the [MASK] from the file.", "The file must [MASK] been opened.")
UNRELATED = "Compute the eigenvalues of a matrix."
DRAWS = 100_000  # of masks


class Masked(NamedTuple):
    """A draw of masks: the tokens that the model reads, and what happened to chosen ones."""

    tokens: list[str]
    outcomes: dict[int, int]  # by position: MASKED, RANDOM or KEPT


class Pair(NamedTuple):
    """A drawn pair: for A and B the text and the document, and whether B is random."""

    texts: tuple[str, str]
    documents: tuple[int, int]
    is_random: bool


class Guess(NamedTuple):
    """A masked position, with the best tokens and their probabilities."""

    position: int
    best: list[tuple[str, float]]


class Head(NamedTuple):
    """The head of a task: its logits, whether for each token, and its weights."""

    units: int
    per_token: bool
    reads_pooled: bool
    weights: int


@dataclasses.dataclass(frozen=True)
class Facts:
    """All numbers, of a model with BERT's vocabulary, and of a pre-training run.

    Attributes:
      tokens, ids, types: The tokens of PAIR.
      parts: By name the rows [tokens, hidden_size] of each table, their sum, and the result.
      masked: A few draws of masks for PAIR.
      outcomes: How many of the chosen tokens of DRAWS draws were masked, random and kept.
      chosen: The fraction of the tokens that was chosen.
      pairs: Sentence pairs of CORPUS.
      attention: [layers, heads, tokens, tokens].
      head: Layer and head that attend most from PRONOUN to MEANT.
      scores: [tokens], the products of the query of PRONOUN with all keys in that head, divided by
        the root of the head size.
      traits: [layers, heads, len(attention.TRAITS)].
      sizes: Of the encoder: weights of each part, by name.
      config: Its configuration.
      guesses_of: Tokens of MASKED in the run's vocabulary, and guesses for its masks.
      follows: The probability that the second text of MASKED follows, and that UNRELATED does.
      run: Its report.
      curve: Steps with the accuracy for masked tokens.
      milestones: A held-out sentence, and by step the best guess with its probability and the
        probability of the right token.
      heads: Of tasks, by name.
    """

    tokens: list[str]
    ids: np.ndarray
    types: np.ndarray
    parts: dict[str, np.ndarray]
    masked: list[Masked]
    outcomes: np.ndarray
    chosen: float
    pairs: list[Pair]
    attention: np.ndarray
    head: tuple[int, int]
    scores: np.ndarray
    traits: np.ndarray
    sizes: dict[str, int]
    config: Any
    guesses_of: tuple[list[str], list[Guess]]
    follows: tuple[float, float]
    run: dict[str, Any]
    curve: list[tuple[int, float]]
    milestones: tuple[dict[str, str], list[tuple[int, str, float, float]]]
    heads: dict[str, Head]


def of_models(model: str, run: str) -> Facts:
    """Computes everything.

    Args:
      model: A model with a BERT encoder.
      run: The folder of a pre-training run with sentence pairs, and `model` in its vocabulary.
    """
    bundle = sources.read(model).bundle
    encoder, tokenizer = bundle.encoder(), bundle.tokenizer()
    sequence = tokens.pack(tokenizer, PAIR, bundle.config.max_seq_length)
    found = attention.of_encoder(encoder, sequence)
    layer, head = np.unravel_index(found[:, :, PRONOUN, MEANT].argmax(), found.shape[:2])
    drawn, outcomes, chosen = _masks(tokenizer, sequence)
    return Facts(
        tokens=[tokenizer.vocabulary.tokens[index] for index in sequence.ids],
        ids=sequence.ids,
        types=sequence.types,
        parts=_embedding_parts(encoder, sequence),
        masked=drawn,
        outcomes=outcomes,
        chosen=chosen,
        pairs=_pairs(tokenizer),
        attention=found,
        head=(int(layer), int(head)),
        scores=_scores(encoder, sequence, int(layer), int(head), found),
        traits=attention.traits(found, sequence),
        sizes=_sizes(encoder),
        config=bundle.config,
        heads=_heads(bundle.config),
        **_of_run(run),
    )


def _embedding_parts(encoder: BertEncoder, sequence: TokenSequence) -> dict[str, np.ndarray]:
    """The rows of the three tables, their sum, and the output of the layer."""
    layer = encoder.embeddings
    rows = (sequence.ids, sequence.types, np.arange(len(sequence)))
    tables = (layer.word, layer.token_type, layer.position)
    parts = {
        name: table.numpy()[row]
        for name, table, row in zip(("token", "segment", "position"), tables, rows, strict=True)
    }
    parts["sum"] = sum(parts.values())
    parts["output"] = encoder(sequence.inputs())["embedding_output"][0].numpy()
    np.testing.assert_allclose(layer.norm(tf.constant(parts["sum"])), parts["output"], atol=1e-5)
    return parts


def _masks(tokenizer: Tokenizer, sequence: TokenSequence) -> tuple[list[Masked], np.ndarray, float]:
    """A few draws, and the numbers of outcomes and the fraction of chosen tokens of many."""
    special = masking.SpecialIds.of(tokenizer)
    settings = ExampleSettings(max_seq_length=len(sequence))
    names = tokenizer.vocabulary.tokens
    lengths = np.full(DRAWS, len(sequence), np.int32)
    first = np.full(DRAWS, (sequence.segments == 0).sum(), np.int32)
    ids = np.tile(sequence.ids, (DRAWS, 1))
    block = masking.SequenceBlock(ids, lengths, first)
    begins = np.asarray(tokenizer.begins_word)
    made = masking.mask(block, special, begins, settings, np.random.default_rng(71))
    drawn = []
    for row in range(6):
        outcomes = {}
        for position in made.positions[row, : made.counts[row]].tolist():
            read, original = ids[row, position], sequence.ids[position]
            kinds = {special.mask: masking.MASKED, original: masking.KEPT}
            outcomes[position] = kinds.get(read, masking.RANDOM)
        drawn.append(Masked([names[index] for index in ids[row]], outcomes))
    return drawn, made.outcomes, float(made.counts.mean() / len(sequence))


def _pairs(tokenizer: Tokenizer) -> list[Pair]:
    """The pairs that are planned from CORPUS."""
    sentences = [sentence for document in CORPUS for sentence in document]
    pieces = tokenizer.tokenize(sentences)
    bounds = np.cumsum([0, *map(len, CORPUS)])
    starts = pieces.row_splits.numpy().astype(np.int64)
    keys = np.arange(len(CORPUS), dtype=np.uint64)
    documents = TokenizedDocuments(pieces.flat_values.numpy(), starts, bounds, keys)
    maker = segments.SentencePairs(ExampleSettings(max_seq_length=20), tokenizer)
    names = tokenizer.vocabulary.tokens

    def text(start: int, length: int) -> str:
        return " ".join(names[i] for i in documents.ids[start : start + length]).replace(" ##", "")

    def document(start: int) -> int:
        return int(np.searchsorted(starts[bounds], start, side="right")) - 1

    return [
        Pair((text(a, m), text(b, n)), (document(a), document(b)), bool(label))
        for a, m, b, n, label in maker.plan(documents, np.random.default_rng(36)).tolist()
    ]


def _scores(
    encoder: BertEncoder, sequence: TokenSequence, layer: int, head: int, found: np.ndarray
) -> np.ndarray:
    """Query of PRONOUN times all keys, over the root of their size, in a head."""
    outputs = encoder(sequence.inputs())
    below = [outputs["embedding_output"], *outputs["encoder_outputs"]][layer][0]
    config = encoder.config
    size = config.hidden_size // config.num_attention_heads
    qkv = encoder.blocks[layer].attention.qkv(below).numpy()
    query, key, _ = qkv.reshape(len(sequence), 3, -1, size)[:, :, head].transpose(1, 0, 2)
    scores = key @ query[PRONOUN] / np.sqrt(size)
    expected = tf.nn.softmax(scores).numpy()
    np.testing.assert_allclose(expected, found[layer, head, PRONOUN], atol=1e-4)
    return scores


def _count(variables: list[Any]) -> int:
    return sum(int(np.prod(variable.shape)) for variable in variables)


def _sizes(encoder: BertEncoder) -> dict[str, int]:
    block = encoder.blocks[0]
    return {
        "embeddings": _count(encoder.embeddings.variables),
        "attention": _count(block.attention.variables),
        "feed_forward": _count(block.feed_forward.variables),
        "block": _count(block.variables),
        "pooler": _count(encoder.pooler.variables),
        "encoder": _count(encoder.variables),
    }


# A task of each shape, and the number of its labels where the data set decides it.
TASKS = {"mnli": 3, "sst2": 2, "squad1": 0, "ner": 9, "swag": 0}


def _heads(config: Any) -> dict[str, Head]:
    found = {}
    for kind, count in TASKS.items():
        task = tasks.make(kind)
        if count:
            task = dataclasses.replace(task, labels=tuple(map(str, range(count))))
        layer = HeadShape.of(task).make(config)
        layer.build(layer.expected_shape)
        weights = _count(layer.variables)
        found[kind] = Head(task.units, task.per_token, task.reads_pooled, weights)
    return found


def _of_run(folder: str) -> dict[str, Any]:
    """The facts of a pre-training run."""
    source = sources.read(folder)
    bundle = source.bundle
    tokenizer = bundle.tokenizer()
    length = source.max_seq_length
    asked = tokens.pack(tokenizer, MASKED, length, masks=True)
    guesser = masked_guesses.MaskedGuesser(source, bundle.encoder())
    guesses = [Guess(g.position, list(g.guesses)) for g in guesser.guess(asked, 4, 512)]
    pairs = bundle.next_sentence()
    model = pairs.task_model([tasks.load(pairs.task(), length)])

    def follows(second: str) -> float:
        sequence = tokens.pack(tokenizer, (MASKED[0], second), length, masks=True)
        return float(tf.nn.softmax(model(sequence.inputs())["next_sentence"])[0, 0])

    report = json_files.read(f"{folder}/report.json", dict[str, Any], finite=False)
    history = progress.read_history(f"{folder}/{progress.HISTORY}")
    return {
        "guesses_of": ([tokenizer.vocabulary.tokens[i] for i in asked.ids], guesses),
        "follows": (follows(MASKED[1]), follows(UNRELATED)),
        "run": report,
        "curve": [(p.step, p.metrics["masked_lm_accuracy"]) for p in history],
        "milestones": _milestones(folder),
    }


def _milestones(folder: str) -> tuple[dict[str, str], list[tuple[int, str, float, float]]]:
    """The held-out sentence whose word was learned most, and the guesses for it by step."""
    lines = milestones.read(folder)
    sentences = next(line["sentences"] for line in lines if "sentences" in line)
    guesses = [(line["step"], line["guesses"]) for line in lines if "guesses" in line]
    first, last = (np.array([g["right"] for g in guesses[at][1]]) for at in (0, -1))
    best = int(np.argmax(last - first))
    found = []
    for step, each in guesses:
        token, probability = max(each[best]["tokens"].items(), key=lambda item: item[1])
        found.append((step, token, probability, each[best]["right"]))
    return dict(sentences[best]), found
