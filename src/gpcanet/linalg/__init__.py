"""The numerics: arrays in, arrays out. Knows no estimator, no file and no torch."""

from .eigen import fix_signs, leading_eigenpairs, leading_eigenpairs_of
from .features import CenteredFeatures, row_chunks
from .half import HalfPropagation
from .progress import progress_to, report
from .propagation import BlockOperator, GhostForm, Normalization, Propagation
from .solve import Method, Solution, Solver
from .threads import in_turn, one_blas_thread

__all__ = [
    "BlockOperator",
    "CenteredFeatures",
    "GhostForm",
    "HalfPropagation",
    "Method",
    "Normalization",
    "Propagation",
    "Solution",
    "Solver",
    "fix_signs",
    "in_turn",
    "leading_eigenpairs",
    "leading_eigenpairs_of",
    "one_blas_thread",
    "progress_to",
    "report",
    "row_chunks",
]
