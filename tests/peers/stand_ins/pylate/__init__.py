"""Replaces PyLate if it is not installed. Has the functions that tests of kernels compare with."""
