"""Names of pretrained weights, and the repositories and revisions they stand for.

`timm:resnet18` and `hf:gpt2` are pinned: a commit and the SHA-256 of its weights, both as several
public projects record them. `timm:resnet18.tv_in1k` and `hf:owner/name` are any repository, and
`@REVISION` behind a name any branch, tag or commit of it.
"""

import re
from dataclasses import dataclass, replace
from difflib import get_close_matches

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.io.hub.hub_problems import UnknownPretrained

NEWEST = "main"
"""The branch that is taken where no revision is asked for and none is pinned."""
SITE = "https://huggingface.co/"
"""The beginning of the address of a repository's page."""
COMMIT = re.compile(r"[0-9a-f]{40}")
_FORM = re.compile(r"(?P<source>timm|hf):(?P<name>[\w./-]+?)(?:@(?P<revision>[\w./-]+))?")
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True)
class Pretrained:
    """Weights of a repository."""

    name: str
    """The name that a user gives, without a revision."""
    repository: str
    revision: str = NEWEST
    sha256: str = ""
    """Of the file of weights, in hexadecimal digits; empty where it is not pinned."""
    model: str = ""
    """The standard model that takes them; empty where none is known."""
    prefix: str = ""
    """The path in the model that all tensors are put below."""
    unused: tuple[str, ...] = ()
    """Globs of tensors that are no parameters, such as masks; they are left out."""

    @property
    def folder(self) -> str:
        """A name for the folder of the weights: `resnet18`, `owner-name`."""
        return self.model.rpartition(":")[2] or self.repository.replace("/", "-")


PINNED = (
    Pretrained(
        "timm:resnet18",
        "timm/resnet18.a1_in1k",
        "491b427b45c94c7fb0e78b5474cc919aff584bbf",
        "80c49dee3da4822c009c5a7fe591e9223c5a2cfcf95a4067ca4dfb5a7b89c612",
        "resnet18",
    ),
    Pretrained(
        "timm:resnet50",
        "timm/resnet50.a1_in1k",
        "767268603ca0cb0bfe326fa87277f19c419566ef",
        "773525d5821de224f8f30c33377b7a795d7863e08522698200d3217d3f2a41bb",
        "resnet50",
    ),
    Pretrained(
        "timm:vit_base_patch16_224",
        "timm/vit_base_patch16_224.augreg2_in21k_ft_in1k",
        "063c6c38a5d8510b2e57df480445e94b231dad2c",
        "32aa17d6e17b43500f531d5f6dc9bc93e56ed8841b8a75682e1bb295d722405b",
        "vit_base_patch16_224",
    ),
    Pretrained(
        "hf:gpt2",
        "openai-community/gpt2",
        "607a30d783dfa663caf39e06633721c8d4cfcd7e",
        "248dfc3911869ec493c76e65bf2fcf7f615828b0254c12b473182f0f81d3a707",
        "gpt2:gpt2",
        prefix="transformer.",
        unused=("transformer.h.*.attn.bias", "transformer.h.*.attn.masked_bias"),
    ),
    Pretrained(
        "hf:smollm2_135m",
        "HuggingFaceTB/SmolLM2-135M",
        "93efa2f097d58c2a74874c7e644dbc9b0cee75a2",
        "80521b40281d6ce74e35c9282c22539e75aa0ac8578892b2a59955ef78d55da1",
        "smollm2_135m",
    ),
    Pretrained(
        "hf:whisper_tiny",
        "openai/whisper-tiny",
        "169d4a4341b33bc18d8881c4b69c2e104e1cc0af",
        "7ebd0e69e78190ffe1438491fa05cc1f5c1aa3a4c4db3bc1723adbb551ea2395",
        "whisper_tiny_full",
    ),
)
"""Those that standard models take, by name."""


def pretrained(text: str) -> Pretrained:
    """Returns the weights that a text names; raises `ProblemError` for a name that is none."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise _unknown(text)
    source, name, revision = match["source"], match["name"], match["revision"]
    known = {each.name: each for each in PINNED}
    found = known.get(f"{source}:{name}")
    if found is None:
        repository = f"timm/{name}" if source == "timm" else name
        # A repository of timm has a tag: without one its name is that of an architecture.
        if _REPOSITORY.fullmatch(repository) is None or (source == "timm" and "." not in name):
            raise _unknown(text)
        found = Pretrained(f"{source}:{name}", repository)
        of_architecture = known.get(f"{source}:{name.partition('.')[0]}")
        same = next((each for each in PINNED if each.repository == repository), of_architecture)
        if same is not None:
            found = replace(same, name=found.name, repository=repository)
            is_pinned = repository in (each.repository for each in PINNED)
            found = found if is_pinned else replace(found, revision=NEWEST, sha256="")
    if revision in (None, found.revision):
        return found
    return replace(found, revision=revision, sha256="")


def _unknown(text: str) -> ProblemError:
    known = [each.name for each in PINNED]
    near = get_close_matches(text, known, n=1, cutoff=0.7)
    near = near or [name for name in known if name.partition(":")[2] == text]
    repository = text.removeprefix(SITE)
    if not near and _REPOSITORY.fullmatch(repository) is not None:
        near = [f"hf:{repository}"]
    return ProblemError(UnknownPretrained(text, tuple(near)))
