"""The benchmarks check their arguments, and write what they measured."""

import json

import pytest

from benchmarks import run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only=writr"], "--only=writr: writr is unknown; comparisons are tokenizer, "),
        (["--only=finetune"], "--only=finetune: finetune needs --glue"),
        (["--only=step"], "give the Python that has the peers (--peer_python)"),
    ],
)
def test_wrong_arguments(arguments, message, capsys):
    with pytest.raises(SystemExit) as raised:
        run.main(arguments)
    assert raised.value.code == 2 and message in capsys.readouterr().err


@pytest.mark.slow
def test_ours_is_measured_without_peers(tmp_path):
    results = tmp_path / "results.json"
    run.main(["--only=tokenizer,writer", f"--results={results}"])
    rows = json.loads(results.read_text())
    # SentencePiece's library is installed with ours.
    library = rows.pop("tokenizer_sentencepiece")
    assert library["ours"] > 0 and library["peer"] > 0
    assert set(rows) == {"tokenizer", "tokenizer_nanotoken", "writer"}
    assert all(row["ours"] > 0 and row["peer"] is None for row in rows.values())
