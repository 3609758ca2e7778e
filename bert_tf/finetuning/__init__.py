"""Runs of fine-tuning."""
