"""The propagation operator P: in full and half precision, with ghost edges, and its kernels."""
