"""Attention in one kernel, and its gradients in two, without a matrix of scores in memory."""
