"""Loaders, one a file: each makes an Encoder of a model and imports what it needs when it is called."""
