"""A problem for each code that no text of a page can cause: it needs a file, a folder or a flag."""

from collections.abc import Mapping
from pathlib import Path

from meganeura_dsl.diagnostics.problem import Help, Problem
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.elaborate.problems.cache_problems import (
    NotGenerating,
    TooFewTokens,
    WritesWithoutCaches,
)
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.problems.value_problems import UnknownValue
from meganeura_dsl.ir.index_checks import Bound
from meganeura_dsl.plugins.plugin_problems import PluginFailure
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_dsl.settings.setting_values import whole
from meganeura_dsl.settings.settings_problems import (
    ImpossibleSetting,
    MalformedOverride,
    MetricTaken,
    MissingArgument,
    MissingSetting,
    MovedInRepeat,
    NoArguments,
    NoPaths,
    NoSuchMetric,
    NotASettingValue,
    NothingToFollow,
    ReservedSize,
    TwoLengths,
    UnfitParameters,
    UnknownChoice,
    UnknownSetting,
    UnmatchedPaths,
    UnnamedArgument,
    WrongSettingType,
)
from meganeura_dsl.settings.value_cures import value_cure
from meganeura_dsl.syntax.problems.grammar_problems import UnusableGrammar
from meganeura_dsl.syntax.problems.text_problems import (
    FileTooLarge,
    NotUtf8,
    TooDeep,
    UnreadableFile,
)
from meganeura_dsl.target_problems import AmbiguousTarget, UnknownTarget
from meganeura_dsl.transforms.egraph.optimizer_problems import (
    FoldedOverflow,
    GaveUp,
    MissingEngine,
    UnknownRule,
)
from meganeura_runtime.backends.device_problems import (
    BeyondLimits,
    DeviceFailure,
    NoClock,
    TooLittleMemory,
    UnsupportedOp,
    UnsupportedPrecision,
)
from meganeura_runtime.export.cache_problems import ExportedCache
from meganeura_runtime.export.deployment.deployment_problems import DeployedDiffers
from meganeura_runtime.export.mgb.container_problems import NotAnArtefact, NotCompiled
from meganeura_runtime.export.onnx.onnx_problems import NoOnnxForm, OnnxDiffers
from meganeura_runtime.export.quantization_problems import NothingKept, NothingQuantized
from meganeura_runtime.export.source.form_problems import NoSourceForm
from meganeura_runtime.importing.onnx.import_problems import (
    ImportDiffers,
    NoForm,
    NotProved,
    UnmetSizes,
    UnreadableOnnx,
    UnsafeExternalData,
)
from meganeura_runtime.importing.source.torch_source_problems import (
    FailedSource,
    FixedSize,
    UnusableSource,
)
from meganeura_runtime.infer.generation_problems import TooLong, WrongSampling
from meganeura_runtime.infer.inference_problems import (
    InputShape,
    NoRows,
    OpenSize,
    UnfitNames,
    UnusedChoice,
    WrongInputs,
)
from meganeura_runtime.io.data.data_problems import (
    DataShape,
    DataType,
    ExamplesNotFirst,
    ForeignData,
    MissingTensor,
    NoData,
    NothingHeldOut,
    OutsideFolder,
    TooFewExamples,
    TwoTensors,
    UnequalExamples,
    UnknownFormat,
)
from meganeura_runtime.io.data.folder_problems import (
    BadColumn,
    NoClasses,
    WorkerDied,
    WrongReader,
)
from meganeura_runtime.io.data.index_problems import ComputedIndexOutside, IndexOutside
from meganeura_runtime.io.data.ragged_problems import NoRaggedRun, RaggedData
from meganeura_runtime.io.data.source_problems import (
    DataFromPython,
    NotData,
    NotForStreams,
    StreamEnded,
    UnclearValidation,
    Uncounted,
    UnlikeExamples,
    UnlikeShards,
    WrongBatch,
    WrongWeights,
)
from meganeura_runtime.io.files import file_problems
from meganeura_runtime.io.hub.hub_problems import (
    HubRefused,
    NoSafetensors,
    NotReached,
    UnknownPretrained,
    WrongChecksum,
)
from meganeura_runtime.io.preprocess.preprocess_problems import UnfitInput
from meganeura_runtime.io.preprocess.token_problems import (
    EmptyPrompt,
    OtherTokenizer,
    OtherVocabulary,
)
from meganeura_runtime.io.weight_names import MalformedRename, NothingToRename, SameName
from meganeura_runtime.io.weights import Difference, NothingToAllow, WeightsMismatch
from meganeura_runtime.support.optional_imports import MissingExtra
from meganeura_runtime.train.report.report_problems import DamagedRun, NotARun, ProgramGone
from meganeura_runtime.train.training_problems import (
    BatchMismatch,
    CannotResume,
    DataChanged,
    FolderInUse,
    IndivisibleBatch,
    InputMismatch,
    LogRefused,
    LossNotFinite,
    NoLength,
    NothingToSample,
    NothingToStopBy,
    NoUpdate,
    UnnamedFolder,
)

FIT = """\
train fit(image: [batch, 784], label: i32[batch], epochs: [epochs]):
  minimize cross_entropy(image |> fc: linear(10), label)
  run:
    data      = "digits.safetensors"
    batch     = 64
    epoch     = 20
    epochs    = 0.5
    steps     = 0
    optimizer = adma(lr=1e-3)
"""


def within(text: str, fragment: str, name: str = "net.mgn") -> Span:
    """The place of a fragment in a text."""
    start = text.index(fragment)
    return Span(Source(name, text), start, start + len(fragment))


DECODER = "\n" * 8 + "model net = Net()\n"
MLP = "model digits_mlp = DigitsMlp(width=32, classes=10)\n"
DEEP = f"def deep(n) = {'(' * 300}n{')' * 300}"
TYPED = """\
block Net()(x: [n, 4]) -> [n, 8]:
  return x |> type: linear(8)

model net = Net()
"""
HALF = within(FIT, "epochs    = 0.5")
NONE = within(FIT, "steps     = 0")
DATA = within(FIT, '"digits.safetensors"')
FILE = Path("digits.safetensors")
WEIGHTS = Path("resnet18.safetensors")

EXAMPLES: Mapping[str, Problem] = {
    problem.code: problem
    for problem in (
        TooDeep(within(DEEP, "(" * 300), 200),
        FileTooLarge(within("def a(n) = n\n", ""), 1 << 20),
        NotUtf8(within("# gr\ufffd\ufffde", "\ufffd"), 0xF6, 4),
        UnreadableFile("resnt.mgn", "there is no such file"),
        UnusableGrammar("it is for Lark 1.2 and 1.3, and Lark 2.0.0 is installed"),
        AmbiguousTarget("fit", ("digits_cnn:fit", "digits_mlp:fit", "resnet:fit")),
        UnknownTarget("", "model", "digits_cn", ("digits_cnn", "digits_mlp")),
        UnknownValue("fc3", ("fc1", "h", "fc2")),
        UnknownSetting(within(FIT, "epoch     = 20"), "epoch", "", ("batch", "data", "epochs")),
        MissingSetting(
            "batch", "a size that the inputs leave open", "batch = 64", within(FIT, "data      =")
        ),
        WrongSettingType(
            HALF,
            "epochs",
            "a whole number",
            "0.5",
            value_cure(["epochs"], given=0.5, kind="int_type", span=HALF),
        ),
        ImpossibleSetting(
            NONE, "steps", "must be above 0", "0", value_cure(["steps"], 0, "greater_than", NONE)
        ),
        UnknownChoice(
            within(FIT, "optimizer = adma(lr=1e-3)"), "optimizer", "adma", ("sgd", "adam", "adamw")
        ),
        MissingArgument(whole("optimizer=heavy(beta=0.5)"), "heavy", "lr"),
        NotASettingValue(whole("batch=2 * 32")),
        UnnamedArgument(whole("optimizer=adam(0.9)")),
        MalformedOverride(whole("batch")),
        NoArguments(whole("epochs.lr=0.1"), "epochs", "lr", "optimizer"),
        NoPaths(whole('epochs["*.bias"]=3'), "epochs"),
        UnmatchedPaths(whole('optimizer["bodi.*"]=frozen'), "bodi.*", ("body.weight", "body.bias")),
        UnfitParameters(
            whole("optimizer=muon(lr=0.02)"),
            "muon",
            "two axes or more",
            (("body.bias", "f32[16]"), ("head.bias", "f32[4]")),
        ),
        MetricTaken(whole("gradient_norm=true"), "gradient_norm"),
        MovedInRepeat(whole("accumulate=2"), "accumulate", "net.weight"),
        NothingToFollow(
            whole('schedule=plateau(metric="accurcy")'),
            "plateau",
            "accurcy",
            ("loss", "accuracy"),
        ),
        NoSuchMetric(whole('best="highest acuracy"'), "acuracy", ("loss", "accuracy")),
        ReservedSize(HALF, "epochs"),
        NoData(DATA, Path("digts"), ("digits",)),
        OutsideFolder(DATA, Path("../digits.safetensors")),
        ForeignData(None, Path("/home/else/digits.safetensors")),
        UnknownFormat(DATA, Path("digits.csv")),
        NotData("example 0", "it has no `label`, only image, target", ("image", "label")),
        UnlikeExamples(17, "image", "f32[1, 9, 8]", "f32[1, 8, 8]"),
        WrongBatch(3, 32, 64, "batch"),
        Uncounted(),
        StreamEnded(37, 100),
        NotForStreams("shuffle"),
        DataFromPython(),
        UnlikeShards(
            DATA,
            Path("digits-2.safetensors"),
            "image",
            "u8[500, 28, 28]",
            Path("digits-1.safetensors"),
            "u8[1000, 784]",
        ),
        NoClasses(DATA, Path("flowers"), "`flowers/rose` has no images"),
        WorkerDied(-9, "flowers/rose/1.jpg"),
        WrongReader(DATA, FILE, "images lie in a folder of folders, each a class"),
        BadColumn(
            DATA,
            Path("flowers.csv"),
            "label",
            "`kind` holds string, and no numbers",
            ("width", "height", "kind"),
        ),
        UnclearValidation(whole("validation=0.001"), "0.001 of 50 examples are 0"),
        WrongWeights(
            whole("sampling_weights=weight"), "weight", "it is f32[40], and there are 50 examples"
        ),
        MissingTensor(DATA, FILE, "label", ("image", "labels"), "label"),
        TwoTensors(DATA, FILE, "label", "label"),
        DataShape(
            DATA,
            FILE,
            "label",
            "[1437, 1]",
            "i32[batch]",
            Help(
                "declare the input as the data has it, `label: i32[batch, 1]`, and where it is"
                " used, write",
                "rearrange(label, [batch, 1] -> [batch])",
            ),
        ),
        DataType(DATA, FILE, "label", "f32", "i32"),
        UnequalExamples(DATA, FILE, (("image", 1437), ("label", 1436))),
        RaggedData(
            DATA,
            FILE,
            "`source` holds 9, and its example has 5 rows of `v`",
            (("found at", "example 3, row 0 of it"),),
            "numbers count from 0 within their example; a batch moves them to its rows",
        ),
        NoRaggedRun(whole("accumulate=2"), "`accumulate = 2`"),
        TooFewExamples(DATA, FILE, 50, 64),
        NothingHeldOut(DATA, FILE),
        ExamplesNotFirst(DATA, FILE, "image", "[784, batch]", "batch"),
        IndexOutside(
            None,
            "graph.safetensors",
            "source",
            (17,),
            4242,
            Bound(50, shown="v = 50", location="sage.mgn:9  gather(x, source)"),
        ),
        ComputedIndexOutside(-1, 2, "net.mgn:4  cross_entropy(z, y - 1)"),
        WrongInputs(("image",), ("imge",), (("image", "[n, 3, h, w]"),)),
        InputShape(
            "image", "[2, 3, 32, 32]", "[n, 3, h, w]", (("h", 64, "`mask`"), ("n", 2, "`mask`"))
        ),
        OpenSize("n"),
        UnusedChoice("--image-size", "image"),
        UnfitInput("mel", Path("cat.png"), "[n, 80, t]", "an image becomes f32[n, 3, h, w]"),
        NoRows("sage", (("x", "f32[v, 34]"), ("source", "i32[e]"), ("target", "i32[e]"))),
        UnfitNames("names.txt", 10, 1000),
        ProgramGone(Path("runs/fit-1"), "nets/net.mgn", "fit"),
        UnknownPretrained("resnet18", ("timm:resnet18",)),
        HubRefused("me/net", "v9", "it has no such branch, tag or commit"),
        NotReached(
            "timm/resnet18.a1_in1k",
            "491b427b45c94c7fb0e78b5474cc919aff584bbf",
            "nothing is asked of it (`--offline`, or HF_HUB_OFFLINE)",
            20_971_520,
        ),
        NoSafetensors("me/net", ("pytorch_model.bin",), ()),
        WrongChecksum(
            Path("model.safetensors"),
            "timm/resnet18.a1_in1k",
            "SHA-256 80c49dee3da4822c009c5a7fe591e9223c5a2cfcf95a4067ca4dfb5a7b89c612",
            "SHA-256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ),
        MissingExtra("PIL.Image", "read images", "pip install 'meganeura[images]'"),
        file_problems.UnreadableFile(FILE, "it ends after 4,096 bytes, and promises 464,904"),
        file_problems.NotFinite(FILE, "train.image", (12, 301), "nan"),
        file_problems.OutOfRange(FILE, "label", (7,), "4294967296", "i64", "i32"),
        file_problems.NoSuchFile(FILE),
        file_problems.CannotWrite(Path("runs/1/weights.safetensors"), "no space is left"),
        file_problems.WouldReplace(Path("best.safetensors"), "the command reads it"),
        file_problems.DamagedFile(
            Path("runs/fit-1/checkpoint.safetensors"),
            "`fc.weight`",
            Help(
                "begin a new run with weights of this one:",
                "--weights runs/fit-1/best.safetensors",
            ),
        ),
        WeightsMismatch(
            WEIGHTS,
            missing=("fc.weight",),
            unexpected=("head.weight",),
            shapes=(Difference("conv1.weight", "[64, 3, 3, 3]", "[64, 3, 7, 7]"),),
            types=(),
        ),
        NothingToAllow("cf.*", "missing", ("fc.weight", "fc.bias")),
        MalformedRename(r"student\.(.*=\1", "missing ), unterminated subpattern at position 9"),
        NothingToRename(
            r"studnet\.(.*)",
            ("student.fc1.bias", "student.fc1.weight", "student.fc2.bias", "student.fc2.weight"),
        ),
        SameName("fc1.bias", ("student.fc1.bias", "teacher.fc1.bias")),
        UnknownRule("conv-residul", ("conv-bias", "conv-residual", "conv-activation")),
        FoldedOverflow("norm.derived.0", "f32", ("conv.weight", "norm.weight", "norm.running_var")),
        GaveUp(
            "the e-graph of 430 values has 20114 entries after 7 iterations, which is more than"
            " 20000; in the last iteration rule `move-apart` matched most often, 8,211 times:"
            " optimize without it"
        ),
        MissingEngine("13.2.0", "egglog-12.0.0", "pip install 'meganeura[optimize]'"),
        DeployedDiffers("output", 0.0371, 1e-4),
        ExportedCache("transformer.h.0.attn.keys", "ONNX"),
        NotGenerating(
            Location(within(MLP, "digits_mlp", "digits_mlp.mgn")),
            "digits_mlp",
            ("takes no `ids: i32[n, s]`",),
        ),
        WritesWithoutCaches(
            Location(within(DECODER, "net", "net.mgn")),
            "net",
            ("takes no `position: i32[] = 0`", "has no parameter `capacity`"),
        ),
        TooLong(16, 100, 64),
        WrongSampling("temperature", "-1.0", "a number from 0 to 1,000"),
        OtherVocabulary("the tokenizer", 50257, 256),
        OtherTokenizer("bytes for tokens", "tokenizer.json, SHA-256 5d2f1c9ab04e"),
        TooFewTokens(300, 256),
        EmptyPrompt(),
        NoOnnxForm(
            "RandomBits", "it has a counterpart from opset 18 on", within(FIT, "image |> fc"), "fc"
        ),
        NoSourceForm(
            "`type`",
            "each module of PyTorch has an attribute of that name",
            within(TYPED, "type: linear(8)"),
        ),
        OnnxDiffers("`output` differs by 0.0371, and 0.0001 is allowed", (("n", 1), ("s", 32))),
        UnreadableOnnx(
            Path("model.onnx"), "`fc.weight`: cannot reshape array of size 3 into shape (2,2)"
        ),
        UnsafeExternalData(
            Path("model.onnx"),
            "fc.weight",
            "../secrets.bin",
            "it is not a name inside of the model's folder",
        ),
        NoForm("NonMaxSuppression", "/boxes/Select", "it is not among the ops that are read"),
        NotProved(
            Path("model.onnx"),
            "[E0301] the two sides of `+` have different shapes",
            "return x + y",
        ),
        ImportDiffers(Path("model.onnx"), "`logits` differs by 0.0371, and 0.0001 is allowed"),
        UnusableSource("net.py:Nett", "it has no `Nett`", "write net.py:Net"),
        FailedSource(
            "net.py:Net",
            "in `forward`, run on zeros: x [2, 5]",
            "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x5 and 4x4)",
            "net.py, line 9: return self.fc(x)",
        ),
        FixedSize("net.py:Net", "n", "2", "net.py, line 9: x = x + torch.zeros(2, 8)"),
        UnmetSizes(
            Path("net.py:Net"), "max(3, n) == 3", "`max(3, n)` is no size of the language", ("n",)
        ),
        NoClock("wgpu:0: Mali-G52 (IntegratedGPU, Vulkan, 1.1)"),
        NotCompiled(
            "drop_last=false", "the last batch would have 29 examples, and is another step"
        ),
        NotAnArtefact("model.mgb", "its format is 3, and 4 is read here: compile it again"),
        LossNotFinite(
            1200,
            "nan",
            "`Log`, f32[], of step 1,187",
            within(FIT, "cross_entropy(image |> fc: linear(10), label)"),
        ),
        PluginFailure(
            "backend",
            "npu",
            ("meganeura-npu 0.2",),
            "`meganeura_npu:BACKEND` is not imported: OSError: no libnpu.so.1 (driver.py:14)",
            "update or uninstall `meganeura-npu`",
        ),
        DeviceFailure("there is no adapter 3: `meganeura devices` lists 1"),
        BeyondLimits(
            within(FIT, "image |> fc: linear(10)"),
            "fc",
            "max_buffer_size",
            "f32[65536, 10, 784] takes 2.1 GB, and a buffer holds 256 MB",
        ),
        UnsupportedOp(
            within(FIT, "cross_entropy(image |> fc: linear(10), label)"), "", "Gather", "toy"
        ),
        UnsupportedPrecision(
            "cpu",
            ComputePrecision.BF16,
            "it is the reference that other floats are compared with",
            (ComputePrecision.F32,),
        ),
        CannotResume("`batch` was decided when it began", ("epochs", "log_every", "device")),
        FolderInUse(Path("runs/fit-1"), 4711),
        LogRefused("wandb", "No API key configured. Use `wandb login` to log in."),
        NotARun(Path("runs"), "settings.json"),
        DamagedRun(Path("runs/fit-1/metrics.jsonl"), 12, "it has no `kind` and `step`"),
        IndivisibleBatch("batch", 32, 3),
        BatchMismatch("fit", (InputMismatch("label", "[32]", "i32[batch]"),), (("batch", 64),)),
        TwoLengths(within(FIT, "epochs    = 0.5")),
        NoLength("cosine", "steps"),
        NothingToStopBy("stop_after"),
        NoUpdate(1000, 22),
        NothingQuantized(("fc.weight", "fc.bias"), ()),
        NothingKept("head.*", ("fc1.weight", "fc2.weight")),
        NothingToSample(
            within('sample_prompt="Once"', '"Once"', "--set"),
            "`fit` applies no model of tokens that gives their logits",
        ),
        UnnamedFolder(2),
        DataChanged(
            FILE,
            (
                (
                    "train.image",
                    "u8[1437, 8, 8], 1,437 examples, 5f0c7d1e9a42",
                    "u8[1797, 8, 8], 1,797 examples, c3e8b20f6d17",
                ),
                ("test.image", "u8[360, 8, 8], 360 examples, 90aa41be77d3", ""),
            ),
        ),
        TooLittleMemory(
            "24.1 GB",
            "15.9 GB",
            (
                "8.4 GB: `MatMul` f32[400000, 5243] net.mgn:2 fc1",
                "8.4 GB: `Where` f32[400000, 5243] net.mgn:2",
            ),
            "about so large a batch would fit",
            "--set batch=263000",
        ),
    )
}
