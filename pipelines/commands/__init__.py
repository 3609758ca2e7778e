"""Flags to one function call: the steps before training."""
