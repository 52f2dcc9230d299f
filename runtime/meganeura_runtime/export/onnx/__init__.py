"""A model as an ONNX file: standard ops, symbolic sizes, parameters under their own names."""
