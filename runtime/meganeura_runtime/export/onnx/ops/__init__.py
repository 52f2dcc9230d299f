"""Each op as nodes of ONNX, one family a file."""
