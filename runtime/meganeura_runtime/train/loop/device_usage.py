"""The utilization of devices: the share of the time of the steps in which they compute."""

from collections.abc import Callable
from time import perf_counter

from meganeura_runtime.train.events import DeviceUsage


class UsageMeter:
    """Adds up the idle time of devices, by polls that never wait.

    Between two looks that found nothing to do they had nothing to do; where only the second did,
    they ended somewhere between, and half of that time counts. Where the host reads what a step
    gave, and so waits for it, they had something to do until then. A step that a session makes
    before its call returns is busy time. For one that is handed to a device, the device has work
    from the end of the call on.
    """

    def __init__(
        self,
        is_busy: Callable[[], bool],
        *,
        is_ahead: bool,
        now: Callable[[], float] = perf_counter,
    ) -> None:
        """`is_ahead` says whether steps are handed to a device that works beside the host."""
        self._is_busy = is_busy
        self._is_ahead = is_ahead
        self._now = now
        self._since: float | None = None
        self._was_busy = False
        self._seconds = 0.0
        self._idle = {True: 0.0, False: 0.0}
        """Idle seconds, by whether inputs were waited for."""

    def begin(self) -> None:
        """Measure from here on."""
        self._since, self._was_busy = self._now(), self._is_busy()

    def look(self, *, for_inputs: bool = False) -> None:
        """Count the time since the last look, in which inputs were waited for, or not."""
        if self._since is None:
            return
        now, is_busy = self._now(), self._is_busy()
        lasted = now - self._since
        if not is_busy:
            self._idle[for_inputs] += lasted / 2 if self._was_busy else lasted
        self._seconds += lasted
        self._since, self._was_busy = now, is_busy

    def stepped(self) -> None:
        """Count the time since the last poll, in which a step was run, or submitted."""
        if self._since is None:
            return
        now = self._now()
        lasted = now - self._since
        if self._is_ahead and not self._was_busy:
            self._idle[False] += lasted
        self._seconds += lasted
        self._since, self._was_busy = now, self._is_ahead

    def waited(self) -> None:
        """Count the time since the last look, at whose end something of the devices was read."""
        if self._since is None:
            return
        now = self._now()
        lasted = now - self._since
        if not self._was_busy:
            self._idle[False] += lasted
        self._seconds += lasted
        self._since, self._was_busy = now, self._is_busy()

    def pause(self) -> None:
        """Leave out what follows, until `begin`."""
        self.look()
        self._since = None

    def usage(self) -> DeviceUsage | None:
        """The shares so far; `None` where nothing was measured."""
        if not self._seconds:
            return None
        idle = sum(self._idle.values())
        return DeviceUsage(1.0 - idle / self._seconds, self._idle[True] / self._seconds)
