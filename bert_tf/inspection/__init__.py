"""Pages that show what goes on inside a model, or in a run of pre-training."""
