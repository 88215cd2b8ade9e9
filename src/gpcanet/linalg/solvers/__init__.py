"""Solvers of (I + alpha L) F = X for blocks of columns, one method per file."""
