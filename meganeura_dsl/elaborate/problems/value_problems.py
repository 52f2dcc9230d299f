"""Problems of values that are asked for by their names."""

from difflib import get_close_matches

from meganeura_dsl.diagnostics.problem import Help, Problem, Report

_FEW = 8


class UnknownValue(Problem, code="E0669", topic="values"):
    """No value of a model has a name that is asked for."""

    pattern: str
    known: tuple[str, ...]
    in_scan: tuple[str, ...] = ()
    """The names that it matches, of values that differ from iteration to iteration."""

    def report(self) -> Report:
        if self.in_scan:
            name = self.in_scan[0]
            short = name.rsplit(".", 1)[-1]
            cure = Help(
                "there is one in each iteration: collect them under another name, and ask for it",
                f"_{short}_all[t] = {short}",
            )
            return self.message(f"`{name}` is a value of each iteration of a scan", cure=cure)
        near = (
            self._below_paths()
            or get_close_matches(self.pattern, self.known, _FEW)
            or self._with_its_last_word()
        )
        listed = ", ".join(f"`{each}`" for each in near)
        cure = Help(
            f"did you mean {listed}?"
            if near
            else "names are those of the program with the paths of layers: `*` is all of them"
        )
        return self.message(f"no value here is called `{self.pattern}`", cure=cure)

    def _below_paths(self) -> list[str]:
        return [each for each in self.known if each.endswith(f".{self.pattern}")][:_FEW]

    def _with_its_last_word(self) -> list[str]:
        word = self.pattern.strip("*").rsplit(".", 1)[-1]
        return [each for each in self.known if word and word in each][:_FEW]
