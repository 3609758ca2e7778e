"""What a user states about the layout of a file."""

from collections.abc import Sequence

from pipelines.common.texts import UTF8
from pipelines.labelled.text_lines import check_encoding


class FileLayout:
    """The layout of a file with a header and the usual delimiter, without quotes in a .tsv.

    Args:
      encoding: the encoding of the file; raises InputError if it is unknown.
    """

    may_be_quoted = False  # whether the cells of a .tsv may be in quotes

    def __init__(self, encoding: str = UTF8):
        check_encoding(encoding)
        self.encoding = encoding

    def is_header(self, path: str, lines: Sequence[Sequence[str]]) -> bool:
        """Returns whether the first line is a header, given the cells of the first lines."""
        return True

    def has_known(self, cells: Sequence[str]) -> bool:
        """Returns whether cells of a first line show that their delimiter is right."""
        return False


USUAL = FileLayout()
