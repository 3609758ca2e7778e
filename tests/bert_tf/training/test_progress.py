"""The history of a run: its lines, and what is shown of them."""

import json
import math

from bert_tf.training.progress import History, Point

# Lines as they were written before objectives had open sets of metrics.
PRETRAINING = {
    "step": 20, "phase": 0, "loss": 5.5, "masked_lm_accuracy": 0.25,
    "next_sentence_accuracy": None, "learning_rate": 1e-4, "sequences_per_second": 1234.5,
    "peak_fraction": 0.5, "seconds": 3.5,
}  # fmt: skip
FINE_TUNING = {
    "step": 20, "loss": 0.5, "learning_rate": 1e-4, "sequences_per_second": 99.0, "seconds": 1.5,
}  # fmt: skip


def test_lines_are_read_and_written_as_ever(tmp_path):
    path = tmp_path / "history.jsonl"
    for line in (PRETRAINING, FINE_TUNING):
        text = f"{json.dumps(line)}\n"
        cut = text + text.replace('"step": 20', '"step": 40') + text[:30]
        path.write_text(cut)
        history = History(str(path), 20)
        assert path.read_text() == text
        (point,) = history.points
        history.add(point)
        assert path.read_text() == 2 * text
        assert history.seconds == line["seconds"]


def test_points_show_whatever_metrics_there_are():
    point = Point.from_json(PRETRAINING)
    assert math.isnan(point.metrics["next_sentence_accuracy"])
    assert point.text() == "loss 5.500, masked lm 25.0%, 1,234 seq/s, 50% of peak FLOP/s"
    assert point.curves().keys() == PRETRAINING.keys() - {"step", "phase"}
    assert Point.from_json(FINE_TUNING).text() == "loss 0.500, 99 seq/s"
    other = Point(1, {"replaced_accuracy": 0.5, "generator_loss": 2.0}, 0.0, 10.0, 1.0)
    assert other.text() == "replaced 50.0%, generator loss 2.000, 10 seq/s"
