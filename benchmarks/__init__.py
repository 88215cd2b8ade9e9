"""Measurements side by side with what a user would run instead; behind ``python -m benchmarks``."""
