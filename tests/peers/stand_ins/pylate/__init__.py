"""Replaces PyLate if it is not installed. It has only the functions with which tests of kernels compare."""
