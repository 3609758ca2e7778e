"""Fault injection: kills, damaged files, bad disks and concurrent requests, counted."""
