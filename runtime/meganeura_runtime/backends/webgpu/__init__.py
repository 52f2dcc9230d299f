"""Plans graphs for WebGPU: values that share a kernel, the order, and the memory."""
