"""Notes on programs whose shapes are right and that hardly compute what is meant."""

from meganeura_dsl.diagnostics.problem import Help, Report, Severity
from meganeura_dsl.elaborate.problems.location import LocatedProblem


class MeaningNote(LocatedProblem):
    """The effect of a part of a program in words, and the usual meaning."""

    what: str
    """The effect, in words."""
    because: str
    """The axes or numbers that show it."""
    cure: Help

    def report(self) -> Report:
        """The report of these words."""
        return self.words(self.what, self.because, cure=self.cure)


class ChannelsElsewhere(MeaningNote, code="N0009", topic="channels", severity=Severity.NOTE):
    """A layer takes its channels from another axis than the layers before it have them on."""


class WeighsElsewhere(MeaningNote, code="N0010", topic="attention", severity=Severity.NOTE):
    """A softmax or an attention is taken along heads, queries or the examples of a batch."""


class HidesNothing(MeaningNote, code="N0011", topic="attention", severity=Severity.NOTE):
    """A score is set to 0 before a softmax, which gives it a share like any other."""


class NumbersOfOthers(MeaningNote, code="N0012", topic="arguments", severity=Severity.NOTE):
    """The numbers of a layer stand in the order of another system, or in the wrong one."""


class AnswerGiven(MeaningNote, code="N0014", topic="training", severity=Severity.NOTE):
    """The labels that a loss compares predictions with are among the inputs of the model."""


class OtherExamples(MeaningNote, code="N0015", topic="examples", severity=Severity.NOTE):
    """The result of an example depends on the other examples of its batch."""


class CacheFromStart(MeaningNote, code="N0016", topic="caches", severity=Severity.NOTE):
    """Queries see the first entries of a cache, and not those up to their own position."""


class BackToItself(MeaningNote, code="N0017", topic="graphs", severity=Severity.NOTE):
    """Rows are gathered and added up by the same ids, so nothing is passed on."""


class ComparedWithItself(MeaningNote, code="N0019", topic="comparison", severity=Severity.NOTE):
    """Both sides of a comparison are the same value, so it is true or false everywhere."""


class MaskTurned(MeaningNote, code="N0020", topic="attention", severity=Severity.NOTE):
    """A mask of an attention is true where a key is usually hidden."""


class SharedNoise(MeaningNote, code="N0013", topic="random numbers", severity=Severity.NOTE):
    """Random numbers are drawn once, and repeated for all examples of a batch."""
