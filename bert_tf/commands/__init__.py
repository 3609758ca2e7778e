"""Flags to one function call: training, export and serving."""
