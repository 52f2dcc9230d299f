"""A block applied to arguments: its signature matched, its body run or known from before."""
