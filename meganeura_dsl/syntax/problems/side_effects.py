"""Calls that stand alone on a line for what they do besides computing: logs, plots, files, seeds.

A program computes values and does nothing else. What such a line is for has a place elsewhere.
"""

import re

from meganeura_dsl.diagnostics.problem import Help, Problem
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.syntax.problems import foreign_calls
from meganeura_dsl.syntax.problems.block_text import axes_of, block_before, bracketed
from meganeura_dsl.syntax.problems.token_problems import ForeignSpelling, MethodCall

_CALL = re.compile(r"(?P<value>(?:[A-Za-z_]\w*(?:\(\))?\.)*)(?P<function>[A-Za-z_]\w*)(?=\()")
_SHOWN = (
    "a program computes and does nothing else: return the value as well, and its type behind a\n"
    "comma in the header; `meganeura run` shows it"
)
_METRIC = "a number is shown and kept as a metric, a picture by `show name = value`"
_TOOLS = (
    'a metric is kept at each evaluation, and `log = ["tensorboard"]` or `["wandb"]` under `run:`\n'
    "keeps it for other tools"
)
_OTHERWISE = "a program computes and does nothing else: leave the line out"
_UNCHANGED = "no call changes a value: bind a name to what comes of it, or leave the line out"
_WORDS = {
    _SHOWN: (
        "print pprint debug info warning warn error critical exception write display show plot"
        " imshow matshow hist scatter bar contour heatmap savefig breakpoint set_trace embed echo"
    ),
    _TOOLS: (
        "log log_dict log_metric log_metrics add_scalar add_scalars add_image add_images"
        " add_histogram add_text add_figure scalar histogram image record"
    ),
    "weights are written by a run, and results by `meganeura run -o result.npy`": (
        "save savez savez_compressed savetxt dump save_pretrained save_model save_weights"
        " save_checkpoint save_file to_csv to_parquet to_json imwrite imsave tofile write_text"
        " save_image"
    ),
    "a run begins with `seed = 0` under `run:`": (
        "seed manual_seed manual_seed_all set_seed seed_everything set_random_seed"
    ),
    "weights are loaded by `--weights FILE`, and a trained model by its name in `from` or"
    " `model`": "load_state_dict load_weights load_model restore from_pretrained",
    "training and evaluation are told apart by the commands; in a block, by `training`": (
        "eval train set_grad_enabled"
    ),
    "no list grows: in a `scan`, write `y[:, t] = value`; of a few values, name each and write\n"
    "`concat(a, b, axis=1)`": "append extend insert appendleft push",
    "what a weight starts as stands where it is declared: `param weight: [c, d] = normal(0.02)`": (
        "xavier_uniform_ xavier_normal_ kaiming_uniform_ kaiming_normal_ trunc_normal_ orthogonal_"
        " constant_ init_weights reset_parameters uniform_ normal_"
    ),
    "gradients are kept small by `clip_norm = 1.0` or `clip_value` under `run:`": (
        "clip_grad_norm_ clip_grad_norm clip_grad_value_ unscale_"
    ),
    "a rate is made smaller by `schedule` under `run:`, such as `schedule = cosine()`": (
        "adjust_learning_rate"
    ),
    "what stands between is computed by name: return it as well, and `grad` gives gradients": (
        "register_hook register_forward_hook register_full_backward_hook register_backward_hook"
        " retain_grad remove"
    ),
    "a layer is made where it is applied, and there is nothing to begin: leave the line out": (
        "__init__"
    ),
    "a layer is made where it is applied: `x |> fc: linear(10)`": "add_module register_module",
    "what must hold is stated after `where`, and proved for all sizes before anything runs": (
        "assert_allclose assert_equal assert_close assert_shape check_shape testing"
    ),
}
_ANSWERS = {name: words for words, names in _WORDS.items() for name in names.split()}
_PLAIN = (
    "print", "pprint", "display", "breakpoint", "set_trace", "log", "plot", "imshow",
    "seed_everything", "set_seed", "manual_seed", "embed", "warn", "save_image",
    "save_checkpoint", "init_weights", "savefig", "adjust_learning_rate",
)  # fmt: skip
"""The calls that are written without a dot too."""

_PICTURES = ("imshow", "matshow", "heatmap", "add_image", "add_images", "image")


def statement_problem(head: Span) -> Problem | None:
    """The problem of a line that is a call of another system alone, from its first word.

    None for other lines, and for functions that the text may declare itself.
    """
    text = head.source.text
    found = _CALL.match(text, head.start)
    if found is None:
        return None
    before = block_before(text[: head.start])
    value, function = found["value"].removesuffix("."), found["function"]
    span = Span(head.source, head.start, found.end())
    if not value:
        is_declared = re.search(rf"\b(?:block|def|import)\b[^\n]*\b{function}\b", text) is not None
        if function not in _PLAIN or is_declared:
            return None
        advice = _advice(function, before, _argument(text, found.end()))
        return ForeignSpelling(span, advice.text, advice.code or "")
    joined = _joined(value, function, before, bracketed(text, found.end()))
    if joined is not None:
        return MethodCall(span, joined)
    is_value = axes_of(value, before) is not None
    if function in _ANSWERS and not (is_value and function in ("scatter", "log", "insert")):
        return MethodCall(span, _advice(function, before, _argument(text, found.end())))
    cure = None
    if "(" not in value:
        cure = foreign_calls.statement_cure(text, head.start, found.end(), before)
    return MethodCall(span, cure or Help(_UNCHANGED if is_value else _OTHERWISE))


def _joined(
    value: str, function: str, before: str, called: tuple[tuple[str, ...], int] | None
) -> Help | None:
    """A list that grows by one or by another list; None for what is no list of this block.

    In a scan, what an iteration gives is collected in its place along an axis.
    """
    is_list = re.search(rf"^[ \t]+{re.escape(value)}[ \t]*=[ \t]*\[", before, re.MULTILINE)
    if function not in ("append", "extend") or is_list is None or called is None:
        return None
    more = ", ".join(called[0])
    index = _scan_around(before)
    if index and function == "append" and len(called[0]) == 1:
        part = re.search(rf"\w\[((?:[ ]*:[ ]*,)*[ ]*{index})[ ]*[,\]]", before)
        empty = f"`{before[is_list.start() :].strip().partition(chr(10))[0].strip()}`"
        return Help(
            f"a scan collects what its iterations give, each in its place: {empty} goes",
            f"{value}[{part[1] if part else index}] = {more}",
        )
    more = f"[{more}]" if function == "append" else more
    return Help("a list is joined with another", f"{value} = {value} + {more}")


def _scan_around(before: str) -> str:
    """The index of the scan that the line after a text stands in; empty if it is in none."""
    *lines, last = before.split("\n")
    depth = len(last)
    for line in reversed(lines):
        indent = len(line) - len(line.lstrip())
        if not line.strip() or indent >= depth:
            continue
        found = re.match(r"\s*scan (\w+) in\b", line)
        if found:
            return found[1]
        depth = indent
    return ""


def _argument(text: str, opening: int) -> str:
    """The name that is the last argument of a call; empty if the last is no name alone."""
    called = bracketed(text, opening)
    last = called[0][-1] if called is not None and called[0] else ""
    return last if re.fullmatch(r"[A-Za-z_]\w*", last) else ""


def _advice(function: str, before: str, argument: str) -> Help:
    """Returns advice in place of a call, for the `train` or block whose text precedes it."""
    words = _ANSWERS[function]
    if words in (_SHOWN, _TOOLS) and before.startswith("train"):
        text = _METRIC if words == _SHOWN else _TOOLS
        line = f"metric mean_{argument} = mean({argument})"
        if function in _PICTURES:
            line = f"show picture = {argument}"
        return Help(text, line if argument else None)
    return Help(_SHOWN if words == _TOOLS else words)
