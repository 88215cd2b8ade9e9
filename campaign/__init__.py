"""A test campaign: random cases against dense formulas, kills, damaged files, load.

Run from a checkout with ``make campaign`` or ``python -m campaign``; docs/testing.md explains it.
"""
