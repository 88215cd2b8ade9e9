"""The propagation P, its compiled step and its variants."""
