"""Losses and metrics of pre-training."""
