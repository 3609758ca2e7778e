"""Names of classes: one name for one thing, in all packages."""

import ast
import collections
import pathlib

_ROOT = pathlib.Path(__file__).parents[1]


def test_no_two_public_classes_share_a_name():
    places = collections.defaultdict(list)
    for package in ("bert_tf", "pipelines"):
        for path in sorted((_ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(f"{path.relative_to(_ROOT)}:{node.lineno}")
    assert places
    assert not {name: found for name, found in places.items() if len(found) > 1}
