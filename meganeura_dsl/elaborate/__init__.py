"""From syntax tree to typed graph: names, shapes and the proofs behind them."""
