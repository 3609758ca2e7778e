"""Faults, tried and counted: kills, damage, inputs, disks, requests; see `benchmarks.soak.run`."""
