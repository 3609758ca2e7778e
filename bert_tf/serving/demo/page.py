"""The page of a server, to ask its model by hand: one HTML text, made of an export's manifest."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from bert_tf.serving.demo import forms
from pipelines.common import html_page
from pipelines.common.html_page import PageFiles

_SHAPES = ("labels.js", "choice.js", "span.js", "tagging.js", "masks.js", "sentences.js")
FILES = PageFiles(
    __package__,
    "demo.html",
    ("demo.css",),
    ("places.js", "server.js", "exchange.js", "fields.js", *_SHAPES, "panel.js", "demo.js"),
    asks_its_server=True,
)


def render(manifest: Mapping[str, Any], model_name: str) -> str:
    """The page; it asks `v1/models/<model_name>`, beside the address that it came from.

    Args:
      manifest: of the export that the server has.
      model_name: what the server calls the model.
    """
    values = {
        "model": model_name,
        "about": {name: manifest[name] for name in ("parameters", "encoders", "precision", "date")},
        "signatures": [dataclasses.asdict(form) for form in forms.of_manifest(manifest)],
    }
    return html_page.render(
        FILES, f"{model_name}: demo", "bert-tf demo", [html_page.json_element("values", values)]
    )
