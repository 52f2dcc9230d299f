"""The records of a run: its locked folder, its logs, and the images and matrices that it shows.

`run_folder` names and writes the files, `run_logs` writes for TensorBoard and Weights & Biases, and
`visual_log` writes what the outputs `show` hold.
"""
