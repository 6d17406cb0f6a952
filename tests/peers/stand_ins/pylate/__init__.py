"""A stand-in for PyLate where it is not installed: the functions that tests of kernels compare with."""
