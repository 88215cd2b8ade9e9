"""Measurements of speed and memory, compared with other libraries: ``python -m benchmarks``."""
