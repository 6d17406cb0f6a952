"""Other packages' functions on maxsim_torch's operators: programs that were written for them run after a change of the
import alone. Each module says in its docstring what it does differently."""
