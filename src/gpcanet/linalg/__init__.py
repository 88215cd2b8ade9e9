"""Numerical linear algebra: arrays in, arrays out. Knows no estimator, no file and no torch."""

from .eigen import (
    estimate_trace,
    fix_signs,
    lanczos_vectors,
    leading_eigenpairs,
    leading_eigenpairs_of,
)
from .features import (
    CenteredFeatures,
    column_blocks,
    column_variances,
    extreme_exponent,
    row_chunks,
    times_power_of_two,
)
from .harmonic import HarmonicExtension
from .interpolation import solutions_by_columns
from .moments import products_and_rows
from .operators.ghost import GhostForm
from .operators.half_precision import HalfPropagation
from .operators.product import Product
from .operators.propagation import Normalization, Propagation
from .parallel import one_blas_thread, parallel_map, parallel_rows, parallel_sum
from .resolvents import Grid, Resolvents, sharing_pays
from .solvers.base import HALF_ALPHA, HALF_ERROR, Method, Solution, Solver, choose_method
from .solvers.refinement import is_large_block

__all__ = [
    "HALF_ALPHA",
    "HALF_ERROR",
    "CenteredFeatures",
    "GhostForm",
    "Grid",
    "HalfPropagation",
    "HarmonicExtension",
    "Method",
    "Normalization",
    "Product",
    "Propagation",
    "Resolvents",
    "Solution",
    "Solver",
    "choose_method",
    "column_blocks",
    "column_variances",
    "estimate_trace",
    "extreme_exponent",
    "fix_signs",
    "is_large_block",
    "lanczos_vectors",
    "leading_eigenpairs",
    "leading_eigenpairs_of",
    "one_blas_thread",
    "parallel_map",
    "parallel_rows",
    "parallel_sum",
    "products_and_rows",
    "row_chunks",
    "sharing_pays",
    "solutions_by_columns",
    "times_power_of_two",
]
