"""GGUF files of llama.cpp, as programs."""
