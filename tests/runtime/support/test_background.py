"""Threads of their own for single things."""

import threading

import pytest

from meganeura_runtime.support.background import begin


def test_it_is_done_elsewhere_and_its_result_waits() -> None:
    go = threading.Event()

    def wait_for(word: str, *, times: int) -> tuple[str, str]:
        assert go.wait(10)
        return threading.current_thread().name, word * times

    begun = begin("waiting", wait_for, "a", times=3)
    assert not begun.done()
    go.set()
    assert begun.result() == ("waiting_0", "aaa")


def test_what_it_raises_is_raised_where_it_is_asked_for() -> None:
    begun = begin("dividing", divmod, 1, 0)
    with pytest.raises(ZeroDivisionError):
        begun.result()
