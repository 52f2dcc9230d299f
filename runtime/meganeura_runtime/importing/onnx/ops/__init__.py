"""Translation of each op of ONNX."""
