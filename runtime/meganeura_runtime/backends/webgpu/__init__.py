"""From a graph to a plan: which values share a kernel, in what order, and where in memory."""
