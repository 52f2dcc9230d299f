"""The number of runs of the garbage collector while much is allocated."""

import gc
from collections.abc import Iterator
from threading import Barrier, Thread

import pytest

from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check, load
from meganeura_dsl.startup.collector import YOUNG_OBJECTS, few_collections
from meganeura_dsl.startup.tricks import VARIABLE

USUAL = (700, 10, 10)


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*USUAL)
    yield
    gc.set_threshold(*before)


def test_a_check_leaves_the_collector_as_it_was() -> None:
    seen: list[tuple[int, int, int]] = []

    def loader(_: tuple[str, ...]) -> None:
        seen.append(gc.get_threshold())

    result = check(Source("net.mgn", "from other import Layer\n"), loader)
    assert not result.fine
    assert seen[0] == (YOUNG_OBJECTS, *USUAL[1:])
    assert gc.get_threshold() == USUAL


def test_what_fails_leaves_the_collector_as_it_was() -> None:
    with pytest.raises(Exception, match="no_such_model"):
        load("no_such_model")
    assert gc.get_threshold() == USUAL


@pytest.mark.parametrize("young", [0, YOUNG_OBJECTS + 1])
def test_a_collector_that_is_off_or_runs_less_often_is_left_alone(young: int) -> None:
    gc.set_threshold(young, *USUAL[1:])
    with few_collections():
        assert gc.get_threshold() == (young, *USUAL[1:])
    assert gc.get_threshold() == (young, *USUAL[1:])


def test_the_trick_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "gc")
    with few_collections():
        assert gc.get_threshold() == USUAL


def test_the_last_of_several_threads_sets_the_collector_back() -> None:
    meet, seen = Barrier(2), list[int]()

    def first() -> None:
        with few_collections():
            meet.wait()  # the other is inside as well
            meet.wait()
        meet.wait()

    thread = Thread(target=first)
    thread.start()
    with few_collections():
        meet.wait()
        meet.wait()
        meet.wait()  # the first has left
        seen.append(gc.get_threshold()[0])
    thread.join()
    assert seen == [YOUNG_OBJECTS]
    assert gc.get_threshold() == USUAL


def test_what_is_set_meanwhile_stays() -> None:
    with few_collections():
        gc.set_threshold(900, 5, 5)
    assert gc.get_threshold() == (900, 5, 5)


def test_a_check_leaves_nothing_that_only_the_collector_finds() -> None:
    text = (
        "block Inner(d)(x: [n, d]) -> [n, d]:\n  return x |> fc: linear(d)\n\n"
        "block Outer(d)(x: [n, d]) -> [n, d]:\n  return x |> inner: Inner(d)\n\n"
        "model outer = Outer(d=3)\n"
    )
    source = Source("net.mgn", text)
    assert check(source, lambda _: None).fine
    gc.collect()
    gc.disable()
    try:
        check(source, lambda _: None)
        assert gc.collect() == 0
    finally:
        gc.enable()
