"""The training loop: it feeds steps to a device, reads their losses, evaluates and saves.

`training_loop` runs a whole run and `step_log` records one that Python drives step by step; both
make their steps through `training_session`. `feeder` and `prefetcher` gather inputs, `evaluation`
measures held-out examples, and `anomaly` finds the first value that is not finite.
"""
