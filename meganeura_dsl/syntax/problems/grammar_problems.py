"""What can be wrong with the compiled grammar that an installation carries.

Every class docstring is the page that `meganeura explain CODE` prints.
"""

from meganeura_dsl.diagnostics.problem import Help, Problem, Report


class UnusableGrammar(Problem, code="E0190", topic="installation"):
    """The parser cannot run: the compiled grammar is missing or damaged, or does not fit.

    Lark parses `.mgn` files on tables that are compiled from the grammar and shipped with it. They
    have to be those of the grammar beside them, and Lark has to be of a version that runs them.

    Install Meganeura again, which installs a version of Lark that fits:

        python -m pip install --force-reinstall meganeura

    In a checkout whose grammar has changed, compile it:

        python -m meganeura_dsl.syntax.parser.grammar
    """

    reason: str

    def report(self) -> Report:
        headline = f"the compiled grammar cannot be used: {self.reason}"
        cure = Help(
            "install Meganeura again, or in a checkout compile the grammar",
            "python -m meganeura_dsl.syntax.parser.grammar",
        )
        return self.message(headline, cure=cure)
