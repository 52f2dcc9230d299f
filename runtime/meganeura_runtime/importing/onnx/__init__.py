"""ONNX files as .mgn programs, proved and compared before they are written."""
