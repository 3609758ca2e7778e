"""The conditional random field equals its definition, and pytorch-crf; tags follow their scheme."""

import dataclasses
import itertools
import json

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import tasks
from bert_tf.tasks.tagging import crf, schemes, serving
from pipelines.common.errors import InputError
from pipelines.labelled.schema import WordsExample
from tests import peers

TAGS = 3


def _draw(seed, batch=4, length=6, tags=TAGS):
    rng = np.random.default_rng(seed)
    emissions = rng.normal(size=(batch, length, tags)).astype(np.float32) * 2
    transitions = rng.normal(size=(tags + 1, tags + 1)).astype(np.float32) * 2
    return rng, emissions, transitions


def _score(emissions, tags, transitions):
    around = [-1, *tags, -1]
    steps = sum(transitions[a, b] for a, b in itertools.pairwise(around))
    return sum(emissions[np.arange(len(tags)), tags].tolist()) + steps


def _all(emissions, transitions):
    """The probability of every list of tags, by definition."""
    every = list(itertools.product(range(emissions.shape[1]), repeat=len(emissions)))
    scores = np.array([_score(emissions, tags, transitions) for tags in every], np.float64)
    weights = np.exp(scores - scores.max())
    return dict(zip(every, weights / weights.sum(), strict=True))


@pytest.mark.parametrize("compiled", [False, True])
def test_likelihood_of_words_among_tokens(compiled):
    rng, emissions, transitions = _draw(0)
    tags = rng.integers(0, TAGS, emissions.shape[:2]).astype(np.int32)
    is_word = rng.random(tags.shape) < 0.6
    is_word[-1] = False
    function = tf.function(crf.log_likelihood, jit_compile=compiled, autograph=False)
    found = function(*map(tf.constant, (emissions, tags, is_word, transitions))).numpy()
    for row in range(3):
        chosen = emissions[row][is_word[row]], tuple(tags[row][is_word[row]].tolist())
        wanted = np.log(_all(chosen[0], transitions)[chosen[1]])
        np.testing.assert_allclose(found[row], wanted, rtol=1e-4)
    assert found[3] == 0


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_are_those_of_differences(compiled):
    rng, emissions, transitions = _draw(1, batch=2, length=4)
    tags = rng.integers(0, TAGS, (2, 4)).astype(np.int32)
    is_word = np.array([[0, 1, 1, 0], [1, 1, 0, 1]], bool)

    @tf.function(jit_compile=compiled, autograph=False)
    def gradients(*variables):
        with tf.GradientTape() as tape:
            tape.watch(variables)
            total = tf.reduce_sum(crf.log_likelihood(variables[0], tags, is_word, variables[1]))
        return tape.gradient(total, variables)

    def total(emissions, transitions):
        chosen = zip(emissions, tags, is_word, strict=True)
        return sum(
            np.log(_all(scores[there], transitions)[tuple(row[there].tolist())])
            for scores, row, there in chosen
        )

    values = [emissions.astype(np.float64), transitions.astype(np.float64)]
    for which, gradient in enumerate(gradients(tf.constant(emissions), tf.constant(transitions))):
        for place in np.ndindex(*values[which].shape):
            moved = []
            for step in (1e-4, -1e-4):
                changed = [value.copy() for value in values]
                changed[which][place] += step
                moved.append(total(*changed))
            wanted = (moved[0] - moved[1]) / 2e-4
            np.testing.assert_allclose(gradient.numpy()[place], wanted, atol=2e-4)


@pytest.mark.parametrize(
    "decode", [crf.decode, tf.function(crf.decode.python_function, jit_compile=True)]
)
def test_the_best_tags_and_their_probabilities(decode):
    _, emissions, transitions = _draw(2)
    words = np.array([6, 1, 4, 0])
    tags, probabilities = decode(*map(tf.constant, (emissions, words, transitions)))
    for row, count in enumerate(words[:3]):
        every = _all(emissions[row, :count], transitions)
        best = max(every, key=every.get)
        assert tuple(tags[row, :count].numpy().tolist()) == best
        for word, tag in enumerate(best):
            wanted = sum(share for other, share in every.items() if other[word] == tag)
            np.testing.assert_allclose(probabilities[row, word], wanted, rtol=1e-4)
    tags, _ = decode(*map(tf.constant, (emissions[:, :0], words * 0, transitions)))
    assert tags.shape == (4, 0)


@pytest.mark.parametrize(
    ("labels", "valid", "invalid"),
    [
        ("O B-X I-X B-Y", ["O B-X I-X B-X B-Y O"], ["I-X", "O I-X", "B-Y I-X"]),
        (
            "O B-X I-X E-X S-X",
            ["B-X I-X E-X S-X O"],
            ["O E-X", "B-X O", "B-X", "B-X S-X", "S-X I-X"],
        ),
        ("O U-X B-X L-X", ["U-X B-X L-X"], ["B-X", "O L-X", "B-X U-X"]),
        ("_ PER_B PER_I", ["PER_B PER_I _"], ["_ PER_I"]),
        ("B M E S", ["B M M E S B E"], ["M", "B S", "S E"]),
    ],
)
def test_tags_that_may_follow(labels, valid, invalid):
    labels = labels.split()
    table = schemes.find(labels).valid(labels)

    def is_valid(text):
        places = [-1, *(labels.index(tag) for tag in text.split()), -1]
        return all(table[pair] for pair in itertools.pairwise(places))

    assert all(map(is_valid, valid)) and not any(map(is_valid, invalid))


@pytest.mark.parametrize("labels", ["O PER LOC", "O I-X B-Y I-Y", "O I-X"])
def test_of_other_schemes_any_tag_may_follow(labels):
    assert schemes.find(labels.split()).valid(labels.split()) is None


def _tagging(labels, **changes):
    return dataclasses.replace(tasks.make("ner"), labels=tuple(labels.split()), **changes)


def test_tags_follow_their_scheme_without_training():
    task = _tagging("B-X B-Y I-X I-Y O")
    logits = np.full((5, 5), -2.0, np.float32)
    for word, tag in enumerate([4, 2, 0, 3, 2]):
        logits[word, tag] = 3
    logits[1, 0], logits[3, 2] = 2, 1
    row = np.array([0, 0, 0, 0, 1])
    logits[4, 1] = 2.5
    tags, shares = task.choose_tags(tf.constant(logits), row, 2)
    names = [task.labels[tag] for tag in tags.numpy()]
    assert names == ["O", "B-X", "B-X", "I-X", "B-Y"]
    wanted = tf.nn.softmax(logits).numpy()[np.arange(5), tags.numpy()]
    np.testing.assert_allclose(shares, wanted, rtol=1e-6)
    free, _ = dataclasses.replace(task, valid_tags=False).choose_tags(tf.constant(logits), row, 2)
    assert free.numpy().tolist() == [4, 2, 0, 3, 2]
    # Only the texts together: the second text begins anew.
    assert [len(x) for x in task.choose_tags(tf.zeros([0, 5]), row[:0], 0)] == [0, 0]


def test_long_texts_are_decoded_one_by_one_with_the_same_result(monkeypatch):
    task = _tagging("B-X B-Y I-X I-Y O")
    rng = np.random.default_rng(0)
    row = tf.constant([0] * 5 + [2] * 1 + [3] * 9, tf.int64)  # text 1 has no word
    logits = tf.constant(rng.normal(size=[15, len(task.labels)]), tf.float32)
    size = len(task.labels) + 1
    table = tf.constant(rng.normal(size=[size, size]), tf.float32)
    for transitions in (None, table):
        together = task.choose_tags(logits, row, 4, transitions)
        monkeypatch.setattr(serving, "_MAX_CELLS", 0)
        alone = task.choose_tags(logits, row, 4, transitions)
        monkeypatch.undo()
        assert together[0].numpy().tolist() == alone[0].numpy().tolist()
        np.testing.assert_allclose(together[1], alone[1], atol=1e-6)


def _examples(*rows):
    tags = [tuple(row.split()) for row in rows]
    return [WordsExample(str(i), f"x: line {i}", x, x) for i, x in enumerate(tags)]


def test_training_shows_whether_tags_follow_their_scheme(caplog):
    rows = ["O B-X I-X O", "B-X O B-X I-X I-X"] * 8
    task = tasks.make("ner")
    assert task.fit(_examples(*rows)).valid_tags
    assert task.fit(_examples("O I-X", *rows)).valid_tags
    assert "the tags of 1 of 49 words in entities do not follow their scheme" in caplog.text
    iob1 = task.fit(_examples("O I-X I-X B-X", "I-X O", *rows[:1]))
    assert "begins with I-; predictions need not, either." in caplog.text
    assert not iob1.valid_tags and not tasks.load(iob1.describe()).valid_tags


@pytest.mark.parametrize(
    ("row", "strays"),
    [
        ("B-X I-X O B-Y LOC", "LOC"),
        ("B-X I-X O X _ [PAD]", r"X, \[PAD\], _"),
        ("B_X I_X O Y", "Y"),
        ("X-B X-I O Y", "Y"),
        ("b-x i-x o Y", "Y"),
    ],
)
def test_tags_without_a_part_among_tags_with_one_are_refused(row, strays):
    with pytest.raises(InputError, match=f"^x: tags have .*, but not {strays}; correct the file"):
        tasks.make("ner").fit(_examples(*[row] * 8))


@pytest.mark.parametrize(
    "row", ["PER O LOC", "NN E-NN VB DT", "b-per i-per o b-loc", "0 1", "X-B X-I"]
)
def test_other_tags_have_no_strays(row):
    found = tasks.make("ner").fit(_examples(*[row] * 8))
    assert found.main_metric == ("accuracy" if row in ("NN E-NN VB DT", "0 1", "X-B X-I") else "f1")


def test_parts_may_be_lower_case():
    """Two entities next to each other are two."""
    task = tasks.make("ner").fit(_examples(*["b-x i-x b-x o"] * 8))
    assert [task.scheme.iobes(tag) for tag in ("b-x", "i-x", "o")] == ["B-x", "I-x", "O"]
    assert task.valid_tags


def test_a_balanced_crf_is_refused():
    head = dataclasses.replace(tasks.make("ner").head, crf=True)
    with pytest.raises(InputError, match="leave out --balanced or --crf"):
        tasks.make("ner", head=head, balanced=True).fit(_examples("O B-X"))
    with pytest.raises(InputError, match="--crf does not apply to the task squad1"):
        tasks.make("squad1", head=head)


_PEER = """
import json, sys, torch, torchcrf
known = json.load(sys.stdin)
tensor = lambda name: torch.tensor(known[name])
emissions, transitions = tensor("emissions"), tensor("transitions")
model = torchcrf.CRF(emissions.shape[-1], batch_first=True)
with torch.no_grad():
    model.transitions.copy_(transitions[:-1, :-1])
    model.start_transitions.copy_(transitions[-1, :-1])
    model.end_transitions.copy_(transitions[:-1, -1])
mask = torch.arange(emissions.shape[1]) < tensor("words")[:, None]
emissions.requires_grad_()
likelihood = model(emissions, tensor("tags"), mask, reduction="none")
likelihood.sum().backward()
print(json.dumps({
    "likelihood": likelihood.tolist(), "best": model.decode(emissions, mask),
    "emissions": emissions.grad.tolist(), "transitions": model.transitions.grad.tolist(),
    "start": model.start_transitions.grad.tolist(), "end": model.end_transitions.grad.tolist(),
}))
"""


@pytest.mark.slow
def test_equals_pytorch_crf():
    python = peers.python("pytorch-crf")
    rng, emissions, transitions = _draw(5, batch=16, length=40, tags=9)
    tags = rng.integers(0, 9, (16, 40)).astype(np.int32)
    words = rng.integers(1, 41, 16)
    values = {"emissions": emissions, "transitions": transitions, "tags": tags, "words": words}
    request = {name: value.tolist() for name, value in values.items()}
    theirs = json.loads(peers.output(python, "-c", _PEER, given=json.dumps(request)))
    is_word = np.arange(40) < words[:, np.newaxis]
    table = tf.constant(transitions)
    with tf.GradientTape() as tape:
        watched = tf.constant(emissions)
        tape.watch([watched, table])
        likelihood = crf.log_likelihood(watched, tf.constant(tags), tf.constant(is_word), table)
    np.testing.assert_allclose(likelihood, theirs["likelihood"], rtol=1e-4)
    of_emissions, of_table = (x.numpy() for x in tape.gradient(likelihood, [watched, table]))
    np.testing.assert_allclose(of_emissions, theirs["emissions"], atol=1e-4)
    for name, mine in (
        ("transitions", of_table[:-1, :-1]), ("start", of_table[-1, :-1]), ("end", of_table[:-1, -1]),
    ):  # fmt: skip
        np.testing.assert_allclose(mine, theirs[name], atol=1e-3)
    best, _ = crf.decode(tf.constant(emissions), tf.constant(words), table)
    assert [row[:n].tolist() for row, n in zip(best.numpy(), words, strict=True)] == theirs["best"]
