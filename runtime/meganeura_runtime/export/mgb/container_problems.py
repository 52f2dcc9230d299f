"""Problems of compiled models."""

from meganeura_dsl.diagnostics.problem import Help, Problem, Remark, Report


class NotAnArtefact(Problem, code="E0581", topic="compiled models"):
    """A file is no compiled model, or one of another version."""

    file: str
    reason: str

    def report(self) -> Report:
        return self.message(
            f"`{self.file}` cannot be run: {self.reason}",
            cure=Help("write it anew with", "meganeura build MODEL --mode infer -o model.mgb"),
        )


class NotCompiled(Problem, code="E0630", topic="compiled models"):
    """A setting asks for what a compiled training step does not do."""

    setting: str
    reason: str

    def report(self) -> Report:
        name, is_named, _ = self.setting.partition("=")
        cure = Help("choose another value with", f"--set {name}=...")
        return self.message(
            f"a compiled training step cannot do `{self.setting}`",
            Remark("because", self.reason),
            cure=cure if is_named else Help("leave it out of the program"),
        )
