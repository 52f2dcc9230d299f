"""A model as source of PyTorch: classes with constructors."""
