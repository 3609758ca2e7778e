"""The loop, optimizers, checkpoints, devices, and the folder of a run."""
