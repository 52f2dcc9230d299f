"""Tricks that make a process start fast, each with its measured gain and a switch."""
