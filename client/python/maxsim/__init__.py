"""maxsimd from Python."""
