"""The paper's experiments, on the user's corpus and at the scale of the user's machine."""
