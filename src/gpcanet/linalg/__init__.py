"""The numerics: arrays in, arrays out. Knows no estimator, no file and no torch."""

from .eigen import fix_signs, leading_eigenpairs, leading_eigenpairs_of, whole_eigenpairs
from .features import CenteredFeatures
from .half import HalfPropagation
from .lanczos import leading_eigenpairs_by_blocks
from .moments import Moments
from .progress import progress_to, report
from .propagation import BlockOperator, GhostForm, Normalization, Propagation
from .resolvents import Plan, Resolvents, make_plan
from .samples import Samples
from .solve import Method, Solution, Solver
from .threads import in_threads, one_blas_thread

__all__ = [
    "BlockOperator",
    "CenteredFeatures",
    "GhostForm",
    "HalfPropagation",
    "Method",
    "Moments",
    "Normalization",
    "Plan",
    "Propagation",
    "Resolvents",
    "Samples",
    "Solution",
    "Solver",
    "fix_signs",
    "in_threads",
    "leading_eigenpairs",
    "leading_eigenpairs_by_blocks",
    "leading_eigenpairs_of",
    "make_plan",
    "one_blas_thread",
    "progress_to",
    "report",
    "whole_eigenpairs",
]
