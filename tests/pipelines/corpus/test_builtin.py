"""The built-in corpus: what is prose and what is not."""

from pipelines.corpus import builtin

SOURCE = '''
"""A module that reads things.

It goes on in a second paragraph, which names ``code`` and :class:`Thing`. Here is
another sentence of it::

    >>> 1 + 1
    2

=======  =====
a table  rows
=======  =====
"""

def function(argument):
    """Return the sum of all the arguments given.

    Args:
      argument: The number that is added to the others.
      other (int): A second number, which may be left out.

    Returns:
      int
    """
'''


def test_prose_is_kept_and_code_is_not(tmp_path):
    (tmp_path / "a.py").write_text(SOURCE)
    text = "\n".join(builtin.prose_paragraphs(str(tmp_path / "a.py")))
    for kept in (
        "A module that reads things.",
        "which names code and Thing.",
        "Return the sum of all the arguments given.",
        "The number that is added to the others.",
        "A second number, which may be left out.",
    ):
        assert kept in text
    for dropped in (">>>", "``", "====", "rows", "Args", "Returns", ":class:"):
        assert dropped not in text


def test_a_copy_of_a_module_is_dropped(tmp_path):
    prose = (
        '"""The first sentence is here. The second one follows it. The third one ends it all."""\n'
    )
    (tmp_path / "a.py").write_text(prose)
    (tmp_path / "b.py").write_text(prose + "x = 1\n")
    (tmp_path / "c.py").write_text("not python at all (")
    found = list(builtin.documents([str(tmp_path)]))
    assert found == [
        ["The first sentence is here.", "The second one follows it.", "The third one ends it all."]
    ]


def test_the_corpus_is_written_in_the_reference_format(tmp_path):
    (tmp_path / "a.py").write_text(
        '"""One sentence is here. Two sentences are here. Now it is three."""'
    )
    counts = builtin.make(str(tmp_path / "out.txt"), [str(tmp_path)])
    assert counts["documents"] == 1
    assert (tmp_path / "out.txt").read_text().endswith("Now it is three.\n\n")
