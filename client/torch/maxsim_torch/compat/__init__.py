"""Packages with the names and the meaning of other libraries' functions, computed by maxsim_torch's operators."""
