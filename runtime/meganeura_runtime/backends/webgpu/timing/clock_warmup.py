"""Keeping an adapter busy before something is timed: an idle one lowers its clock.

It takes tens of milliseconds of work to raise it again, five times over on a large GPU; until then
everything seems that much slower, and what is timed later seems faster than what is timed first.
"""

from meganeura_runtime.backends.webgpu.device.device import Device

WARM_SECONDS = 0.06
MOST_RUNS = 2000


def warmup_runs(device: Device, seconds: float) -> int:
    """Returns the runs that warm up a cold adapter's clock, for the seconds of one; else 0.

    It takes less and less of the time as the clock rises, hence the double.
    """
    if device.info.is_software:
        return 0
    return max(1, min(MOST_RUNS, int(2 * WARM_SECONDS / max(seconds, 1e-6))))
