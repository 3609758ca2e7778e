"""A run of pre-training."""
