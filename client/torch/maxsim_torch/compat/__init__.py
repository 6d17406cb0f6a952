"""Packages that offer other libraries' functions, under the same names, computed by maxsim_torch's operators."""
