"""Problems of data that is given from Python, of streams, shards and ways to draw examples."""

from pathlib import Path

from meganeura_dsl.diagnostics.problem import Help, Problem, Remark, Report
from meganeura_dsl.diagnostics.source import Span


class NotData(Problem, code="E0600", topic="data"):
    """The data that a program was given holds no arrays that could feed its inputs."""

    what: str
    """The name of the object: the data, or one item of it."""
    reason: str
    inputs: tuple[str, ...]

    def report(self) -> Report:
        """Say which inputs there are."""
        return self.message(
            f"{self.what} cannot feed the program",
            Remark("because", self.reason),
            Remark("its inputs are", ", ".join(self.inputs)),
            cure=Help("give a dictionary of arrays by these names"),
        )


class UnlikeExamples(Problem, code="E0601", topic="data"):
    """An example that was given from Python has another shape or type than the first one."""

    number: int
    name: str
    given: str
    wanted: str

    def report(self) -> Report:
        """Show both."""
        return self.message(
            f"example {self.number:,} is not like the first",
            Remark("it has", f"{self.name}: {self.given}"),
            Remark("the first", f"{self.name}: {self.wanted}"),
            cure=Help("give all examples one shape: pad, cut or resize them before"),
        )


class WrongBatch(Problem, code="E0602", topic="data"):
    """A batch of an iterable does not have as many examples as the program's batch."""

    number: int
    given: int
    wanted: int
    counter: str | None

    def report(self) -> Report:
        """Offer the size of the data's batches, if the program has a size for it."""
        if self.counter is None:
            cure = Help("give batches of one example: no size of this program counts examples")
        else:
            cure = Help(
                "make them equal, for example by the setting", f"{self.counter}={self.given}"
            )
        return self.message(
            f"batch {self.number:,} of the data has {self.given:,} examples, and a step takes "
            f"{self.wanted:,}",
            cure=cure,
        )


class Uncounted(Problem, code="E0603", topic="data"):
    """The data does not say how many batches it has."""

    held_out: bool = False

    def report(self) -> Report:
        """Say what to give instead."""
        if self.held_out:
            return self.message(
                "the data that is held out has no length",
                cure=Help("give arrays, a data set, a list of batches or a loader with a length"),
            )
        return self.message(
            "the data has no length, so nobody knows how many steps an epoch takes",
            cure=Help("say it", "steps_per_epoch=1000"),
        )


class StreamEnded(Problem, code="E0604", topic="data"):
    """The data ended before the epoch did."""

    batches: int
    wanted: int

    def report(self) -> Report:
        """Say how many there were."""
        return self.message(
            f"the data ended after {self.batches:,} batches",
            Remark("needed", f"{self.wanted:,}"),
            cure=Help(
                f"make an epoch shorter: `steps_per_epoch={self.batches}`"
                if self.batches
                else "give a new iterator: this one was used before, or is empty"
            ),
        )


class NotForStreams(Problem, code="E0605", topic="data"):
    """A setting needs random access to examples, and the data is a stream."""

    setting: str

    def report(self) -> Report:
        """Name the setting."""
        return self.message(
            f"`{self.setting}` is not possible with batches that come in their own order",
            cure=Help("give arrays, or a data set with `len()` and `[i]`"),
        )


class DataFromPython(Problem, code="E0606", topic="data"):
    """A run that was fed from Python goes on without its data."""

    def report(self) -> Report:
        """Say how to go on."""
        return self.message(
            "the run was fed from Python, and no file has its data",
            cure=Help("go on with it from Python, or name a file with the same", "--set data=FILE"),
        )


class UnlikeShards(Problem, code="E0607", topic="data"):
    """The files that a glob names do not fit together."""

    span: Span | None
    file: Path
    name: str
    given: str
    """The form of this file, or nothing."""
    first: Path
    wanted: str
    """The form of the first file, or nothing."""

    def report(self) -> Report:
        """Show what both files have."""
        return self.message(
            f"`{self.file}` is not like the other shards",
            Remark("it has", f"{self.name}: {self.given or 'nothing'}"),
            Remark(str(self.first), f"{self.name}: {self.wanted or 'nothing'}"),
            span=self.span,
            cure=Help("write all files with the same tensors, or let the glob name those alone"),
        )


class UnclearValidation(Problem, code="E0608", topic="data"):
    """It is not clear which examples are held out, or there would be none."""

    span: Span | None
    reason: str

    def report(self) -> Report:
        """Say why."""
        return self.message(
            "the setting `validation` cannot be followed",
            Remark("because", self.reason),
            span=self.span,
            cure=Help(
                "name a share that holds examples out, or a file of them", "validation = 0.1"
            ),
        )


class WrongWeights(Problem, code="E0609", topic="data"):
    """The weights by which examples are drawn are not one number of at least 0 for each."""

    span: Span | None
    name: str
    reason: str

    def report(self) -> Report:
        """Say what is wrong with them."""
        return self.message(
            f"`{self.name}` does not say how often each example is drawn",
            Remark("because", self.reason),
            span=self.span,
            cure=Help("store a number of at least 0 for each example"),
        )
