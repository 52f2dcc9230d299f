"""Problems of weights from a hub."""

from pathlib import Path

from meganeura_dsl.diagnostics.problem import Help, Problem, Remark, Report
from meganeura_dsl.diagnostics.wording import quoted


class UnknownPretrained(Problem, code="E0650", topic="hub"):
    """There are no pretrained weights of a name."""

    name: str
    near: tuple[str, ...] = ()

    def report(self) -> Report:
        whole = (
            "a repository is named whole, as timm:resnet26.bt_in1k or hf:owner/name; others are in"
        )
        cure = Help(whole, "meganeura weights list")
        if self.near:
            cure = Help(f"did you mean {quoted(self.near, 'or')}?")
        return self.message(f"there are no pretrained weights called `{self.name}`", cure=cure)


class HubRefused(Problem, code="E0651", topic="hub"):
    """The hub has no such repository, revision or file, or does not give it to everybody."""

    repository: str
    revision: str
    reason: str
    cure: Help | None = None

    def report(self) -> Report:
        return self.message(
            f"the hub does not give `{self.repository}` at `{self.revision}`",
            Remark("because", self.reason),
            cure=self.cure,
        )


class NotReached(Problem, code="E0652", topic="hub"):
    """The hub cannot be reached, or is not to be, and the cache does not hold what is needed."""

    repository: str
    revision: str
    reason: str
    kept: int = 0
    """Bytes of the file that are here already."""

    def report(self) -> Report:
        kept = f"{self.kept / 1e6:.1f} MB of it are kept, and the next attempt goes on there"
        return self.message(
            f"`{self.repository}` is not in the cache, and the hub is not reached",
            Remark("revision", self.revision),
            Remark("because", self.reason),
            *((Remark("so far", kept),) if self.kept else ()),
            cure=Help(
                "run the command once with a network, and without `--offline`: the files are kept"
            ),
        )


class NoSafetensors(Problem, code="E0653", topic="hub"):
    """A repository has no single file of weights that is read here."""

    repository: str
    pickles: tuple[str, ...]
    shards: tuple[str, ...]

    def report(self) -> Report:
        if self.shards:
            because = f"its weights are in several files, as {quoted(self.shards[:1])} says"
            cure = Help("download its files into a folder, and name that as --weights")
        elif self.pickles:
            because = f"it has {quoted(self.pickles[:3])}; to read a pickle is to run its code"
            cure = Help("load it where you trust it, and save it by safetensors.torch.save_model")
        else:
            because, cure = "it has no file of weights at all", None
        return self.message(
            f"`{self.repository}` has no `model.safetensors`", Remark("because", because), cure=cure
        )


class WrongChecksum(Problem, code="E0654", topic="hub"):
    """A file is not the one whose checksum is known; it is removed from the cache."""

    file: Path
    repository: str
    wanted: str
    found: str

    def report(self) -> Report:
        return self.message(
            f"`{self.file.name}` of `{self.repository}` is not what its checksum says",
            Remark("it should be", self.wanted),
            Remark("it is", self.found),
            cure=Help("it was removed: get it again; where that does not help, use another source"),
        )
