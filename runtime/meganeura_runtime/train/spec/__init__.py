"""The specification of a run: the settings of a `train` block and the graphs that they lead to.

`train_spec` makes the steps of a block, `train_job` adds the examples, and `resume` reads both back
from a checkpoint. `memory_fit` and `step_planning` compute how much memory a step takes. All
mistakes that can be found before the first step are found here.
"""
