"""The data of a run: files that its settings name, or arrays and batches that Python passes.

`run_data` finds and checks a data set, `data_fingerprint` hashes it so that a resumed run notices
other data, and `batch_arrays` checks the batches of a run that Python feeds step by step.
"""
