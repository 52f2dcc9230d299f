"""The standard files, for tests that share what is found out about them."""

from functools import cache

from meganeura_dsl import pipeline
from meganeura_dsl.syntax.parser.parser import outline


def declared(file: str, kind: str) -> list[str]:
    """The names of a file's declarations of a kind. Nothing is proved, so tests are soon listed."""
    return [each.name for each in outline(pipeline.find(file).read()) if each.kind == kind]


@cache
def checked(file: str) -> pipeline.CheckResult:
    """Returns the check of a whole standard file; each is checked once."""
    return pipeline.check_file(file)
