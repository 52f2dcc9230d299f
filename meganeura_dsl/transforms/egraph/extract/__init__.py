"""The cheapest graph of an e-graph, each shared value paid once."""
