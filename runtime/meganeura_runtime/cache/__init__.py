"""What was compiled before, kept on disk: optimized graphs and plans."""

from meganeura_runtime.cache.compiled import Rewritten, kept_inference, kept_plan, kept_step
from meganeura_runtime.cache.entries import Entries, user_entries

__all__ = ["Entries", "Rewritten", "kept_inference", "kept_plan", "kept_step", "user_entries"]
