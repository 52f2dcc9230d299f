"""What each op of ONNX is in the language."""
