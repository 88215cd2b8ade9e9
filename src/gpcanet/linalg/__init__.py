"""The numerics: arrays in, arrays out. Knows no estimator, no file and no torch."""

from .eigen import fix_signs, leading_eigenpairs, leading_eigenpairs_of, whole_eigenpairs
from .factored import FactoredProducts
from .features import CenteredFeatures, extreme_exponent, row_chunks, times_power_of_two
from .half import HalfPropagation
from .lanczos import EXACT_ANGLE, leading_eigenpairs_by_blocks
from .moments import Moments, moments_needed
from .product import Product
from .progress import progress_to, report
from .propagation import BlockOperator, GhostForm, Normalization, Propagation
from .resolvents import Grid, Resolvents, Sharing, plan_sharing
from .samples import Samples
from .solve import HALF_ALPHA, HALF_ERROR, Method, Solution, Solver, is_small
from .threads import one_blas_thread, parallel_map, parallel_sum

__all__ = [
    "EXACT_ANGLE",
    "HALF_ALPHA",
    "HALF_ERROR",
    "BlockOperator",
    "CenteredFeatures",
    "FactoredProducts",
    "GhostForm",
    "Grid",
    "HalfPropagation",
    "Method",
    "Moments",
    "Normalization",
    "Product",
    "Propagation",
    "Resolvents",
    "Samples",
    "Sharing",
    "Solution",
    "Solver",
    "extreme_exponent",
    "fix_signs",
    "is_small",
    "leading_eigenpairs",
    "leading_eigenpairs_by_blocks",
    "leading_eigenpairs_of",
    "moments_needed",
    "one_blas_thread",
    "parallel_map",
    "parallel_sum",
    "plan_sharing",
    "progress_to",
    "report",
    "row_chunks",
    "times_power_of_two",
    "whole_eigenpairs",
]
