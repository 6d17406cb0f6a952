"""Loaders, one per file. Each returns a model as an Encoder, and imports its library when it is called."""
