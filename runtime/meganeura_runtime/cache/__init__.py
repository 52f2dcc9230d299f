"""What was compiled before, kept on disk: optimized graphs and plans."""

from meganeura_runtime.cache.compiled import Rewritten, kept_inference, kept_plan, kept_step

__all__ = ["Rewritten", "kept_inference", "kept_plan", "kept_step"]
