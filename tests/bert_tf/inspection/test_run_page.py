"""What a page shows of a run: what the run noted, and neighbours among its words."""

import json
import math
import shutil

import numpy as np
import pytest

from bert_tf import weights
from bert_tf.inspection import run_page
from bert_tf.pretraining.milestones import MILESTONES
from bert_tf.training.progress import Point
from pipelines.common.errors import InputError
from pipelines.tokenizers import registry
from pipelines.tokenizers.wordpiece_vocabulary import SPECIAL_TOKENS, WordPieceVocabulary
from tests.bert_tf.pretraining.conftest import finished, model_path  # noqa: F401  (fixtures)


@pytest.fixture(scope="module")
def run(finished):  # noqa: F811
    return finished


def test_a_run_is_shown_as_it_was_noted(run):
    values = run_page.inspect(str(run)).values
    report = json.loads((run / "report.json").read_text())
    assert values["run"]["finished"] and values["run"]["steps"] == 60
    figure = values["run"]["figures"]["masked_lm_accuracy"]
    assert figure == pytest.approx(report["masked_lm_accuracy"], rel=1e-4)
    history = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    assert values["history"]["steps"] == [point["step"] for point in history]
    assert values["history"]["together"] == 1
    for name in ("loss", "masked_lm_accuracy", "learning_rate"):
        known = [point[name] for point in history]
        assert values["history"]["values"][name] == pytest.approx(known, rel=1e-4)
    assert values["held_out"]["steps"] == [60]
    course = values["course"]
    assert course["steps"] == [10, 20, 30, 40, 50, 60]
    for sentence, guess, reported in zip(
        course["sentences"], course["guesses"][-1], report["masked_sentences"], strict=True
    ):
        assert sentence["text"] == reported["text"]
        assert dict(guess["tokens"]) == pytest.approx(reported["guesses"], abs=2e-4)


def test_a_run_of_minutes_has_the_steps_that_it_did(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    identity = json.loads((run / "run.json").read_text())
    identity["phases"] = [phase | {"steps": None} for phase in identity["phases"]]
    (tmp_path / "run/run.json").write_text(json.dumps(identity))
    assert run_page.inspect(f"{tmp_path}/run").values["run"]["steps"] == 60
    (tmp_path / "run/report.json").unlink()  # it still runs
    lines = (run / "history.jsonl").read_text().splitlines()[:2]
    (tmp_path / "run/history.jsonl").write_text("\n".join(lines) + "\n")
    assert (
        run_page.inspect(f"{tmp_path}/run").values["run"]["steps"] == json.loads(lines[1])["step"]
    )


def test_neighbours_are_the_nearest_by_cosine(run):
    look = run_page.inspect(str(run))
    words, count = look.values["words"]["words"], look.values["words"]["count"]
    bundle = weights.read(str(run))
    tokens = bundle.require_vocabulary().tokens
    table = bundle.weights["encoder/embeddings/word_embeddings"].astype("f8")
    vectors = np.stack([table[tokens.index(word)] for word in words])
    vectors -= table[: len(tokens)].mean(0)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert "model" in words and "[MASK]" not in words and not any("##" in w for w in words)
    nearest = np.frombuffer(look.parts["nearest"], "<u2").reshape(len(words), count)
    cosines = np.frombuffer(look.parts["cosines"], np.int8).reshape(len(words), count)
    for word in range(len(words)):
        known = vectors @ vectors[word]
        known[word] = -2
        assert nearest[word].tolist() == np.argsort(-known, kind="stable")[:count].tolist()
        np.testing.assert_allclose(cosines[word] / 100, known[nearest[word]], atol=0.0051)


def test_words_with_one_direction_are_neighbours():
    words = ("left", "right", "port", "starboard", "##ing", "a", "42")
    tokenizer = registry.make(
        WordPieceVocabulary((*SPECIAL_TOKENS, *words)), {"lower_case": True, "strip_accents": True}
    )
    table = np.zeros([12, 3], np.float32)
    table[5:9] = [[1, 0, 0.1], [0, 1, 0], [2, 0, 0], [0, 3, 0.1]]
    found = run_page.word_neighbours(table, tokenizer)
    assert found.words == ("left", "right", "port", "starboard")
    assert found.nearest[:, 0].tolist() == [2, 3, 0, 1]


def test_long_histories_are_thinned_to_means():
    points = [
        Point(step, {"loss": float(step), "next": math.nan}, 0.1, 5.0, 1.0)
        for step in range(1, 1502)
    ]
    found = run_page.thinned(points)
    assert found["together"] == 3
    assert found["steps"][:2] == [3, 6] and found["steps"][-1] == 1501
    assert found["values"]["loss"][:2] == [2.0, 5.0] and found["values"]["loss"][-1] == 1501.0
    assert set(found["values"]["next"]) == {None}
    late = Point(1502, {"loss": 1.0, "late": 2.0}, 0.1, 5.0, 1.0)
    assert run_page.thinned([*points, late])["values"]["late"][-1] == 2.0


def test_older_and_unfinished_runs_have_what_they_noted(run, tmp_path):
    older = shutil.copytree(run, tmp_path / "older")
    (older / MILESTONES).unlink()
    values = run_page.inspect(str(older)).values
    assert values["course"] is None
    report = json.loads((run / "report.json").read_text())
    accuracy = values["held_out"]["values"]["masked_lm_accuracy"]
    assert accuracy == pytest.approx([report["masked_lm_accuracy"]], rel=1e-4)
    (older / "report.json").unlink()
    values = run_page.inspect(str(older)).values
    assert not values["run"]["finished"] and values["words"] is None
    assert len(values["history"]["steps"]) == 12
    (older / "history.jsonl").unlink()
    assert run_page.inspect(str(older)).values["history"]["steps"] == []


def test_what_is_no_run_of_pretraining_is_refused(tmp_path):
    (tmp_path / "run.json").write_text('{"settings": {}}')
    with pytest.raises(InputError, match="is not a run of pre-training; give its model a text"):
        run_page.inspect(str(tmp_path))
    with pytest.raises(InputError, match="is not a run \\(it has no run.json\\)"):
        run_page.inspect(str(tmp_path / "nothing"))
