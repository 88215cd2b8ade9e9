"""Block solvers of (I + alpha L) F = X."""
