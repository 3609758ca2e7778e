"""Links between documents lead to files and headings that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```|^    .*?$", re.MULTILINE | re.DOTALL)


def _anchors(path):
    """Names of the headings of a document, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", _CODE.sub("", path.read_text()), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    for link in _LINK.findall(path.read_text()):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in _anchors(target), link
