"""Messages are drawn as designed, whatever the user's text holds and however long it is."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as some

from meganeura_dsl.diagnostics.problem import (
    Edit,
    Help,
    Label,
    Remark,
    Report,
    Severity,
    safe_fix,
    suggested_fix,
)
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.diagnostics.terminal import (
    WIDTH,
    printable,
    render,
    render_short,
    wants_colour,
    width,
)


def at(text: str, fragment: str, *, line: int = 1, name: str = "net.mgn") -> Span:
    """The span of a fragment in a text that starts at a line of a file."""
    source = Source(name, "\n" * (line - 1) + text)
    start = source.text.index(fragment)
    return Span(source, start, start + len(fragment))


def error(
    span: Span | None,
    text: str = "here",
    *,
    headline: str = "wrong",
    severity: Severity = Severity.ERROR,
    remarks: tuple[Remark, ...] = (),
    cure: Help | None = None,
    path: str = "",
) -> Report:
    """An error of no importance at a place."""
    label = None if span is None else Label(span, text)
    return Report("E0999", severity, headline, "test", label, remarks, cure, path)


def drawn(span: Span, text: str = "here") -> list[str]:
    """The lines below the headline."""
    return render(error(span, text)).split("\n")[1:]


# --- the form of a message -----------------------------------------------------------------------


def test_refuted_equality() -> None:
    span = at("  return relu(x + y)\n", "x + y", line=11, name="resnet.mgn")
    report = Report(
        "E0301",
        Severity.ERROR,
        "the two sides of `+` have different shapes",
        "refuted sizes",
        Label(
            Span(span.source, span.start, span.start + 1),
            "y: [n, c, down(h, stride), down(w, stride)]\n"
            "x: [n, c, h, w]          on the path where c_in == c",
        ),
        (
            Remark("for example", "stride=2  c_in=c=64  h=w=56   gives   x [n, 64, 56, 56]"),
            Remark("y shrank here", "conv1: conv2d(c, 3, stride, ...)", Span(span.source, 5, 6)),
        ),
        Help("project whenever the stride changes too", "  if stride != 1 or c_in != c:"),
    )
    assert render(report).split("\n") == [
        "error[E0301]: the two sides of `+` have different shapes" + 21 * " " + "(refuted sizes)",
        "  resnet.mgn:11  return relu(x + y)",
        "                             ^ y: [n, c, down(h, stride), down(w, stride)]",
        "                               x: [n, c, h, w]          on the path where c_in == c",
        "  for example    stride=2  c_in=c=64  h=w=56   gives   x [n, 64, 56, 56]",
        "  y shrank here  resnet.mgn:6  conv1: conv2d(c, 3, stride, ...)",
        "  help: project whenever the stride changes too       if stride != 1 or c_in != c:",
    ]


def test_help_with_code_beside() -> None:
    span = at("  y = y + (x |> batch_norm)", "batch_norm", line=16, name="repvgg.mgn")
    report = Report(
        "E0204",
        Severity.ERROR,
        "`batch_norm` owns weights but has no name",
        "naming",
        Label(span, "would create weight, bias, running_mean"),
        help=Help("label it; the label becomes the checkpoint key", "x |> identity: batch_norm"),
    )
    assert render(report).split("\n") == [
        "error[E0204]: `batch_norm` owns weights but has no name                      (naming)",
        "  repvgg.mgn:16  y = y + (x |> batch_norm)",
        "                               ^^^^^^^^^^ would create weight, bias, running_mean",
        "  help: label it; the label becomes the checkpoint key     x |> identity: batch_norm",
    ]


def test_remark_without_title_stands_at_the_left() -> None:
    span = at("  minimize cross_entropy(logits, label)", "cross_entropy(logits, label)", line=37)
    report = error(
        span, "", remarks=(Remark("", "axis 1: 10 classes against 1."), Remark("sizes", "10\n1"))
    )
    assert render(report).split("\n")[1:] == [
        "  net.mgn:37  minimize cross_entropy(logits, label)",
        "                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        "  axis 1: 10 classes against 1.",
        "  sizes       10",
        "              1",
    ]


def test_layer_path_is_told() -> None:
    report = error(at("x + y", "x"), path="layer2.0.conv1")
    assert render(report).split("\n")[3] == "  in layer   layer2.0.conv1"


def test_no_place_at_all() -> None:
    report = error(None, remarks=(Remark("looked in", "net.mgn"),))
    assert render(report) == f"error[E0999]: wrong{'(test)':>64}\n  looked in  net.mgn"
    assert render_short(report) == "error[E0999]: wrong"


def test_remark_with_a_place_and_no_text_shows_the_code() -> None:
    span = at("  a = 1\n  a = 2\n", "a = 2")
    remark = Remark("first here", "", Span(span.source, 2, 3))
    assert "  first here  net.mgn:1  a = 1" in render(error(span, remarks=(remark,)))


@pytest.mark.parametrize(
    ("length", "shown"),
    [
        (50, "x" * 50 + " " * 13 + "(test)"),
        (75, "x" * 75 + "  (test)"),
        (78, "x" * 78 + "  (test)"),
        (79, "x" * 79),
    ],
)
def test_topic_stands_in_its_column_or_gives_way(length: int, shown: str) -> None:
    headline = render(error(None, headline="x" * length))
    assert headline == f"error[E0999]: {shown}"


def test_help_over_several_lines_stands_below() -> None:
    report = error(None, cure=Help("write both\nin this order", "a = 1\n  b = 2"))
    assert render(report).split("\n")[1:] == [
        "  help: write both",
        "        in this order",
        "        a = 1",
        "          b = 2",
    ]


def fixing(*edits: tuple[Span, str]) -> list[str]:
    """The lines of a fix, below the words of the help."""
    cure = safe_fix("do", *(Edit(span, text) for span, text in edits))
    return render(error(None, cure=cure)).split("\n")[2:]


def test_a_fix_that_changes_the_meaning_is_a_suggestion() -> None:
    edit = Edit(at("a = 1", "1"), "2")
    safe, guess = (render(error(None, cure=each("do", edit))) for each in (safe_fix, suggested_fix))
    assert safe.split("\n")[1:] == ["  help: do", "        1 - a = 1", "        1 + a = 2"]
    assert guess.split("\n")[1:] == ["  suggestion: do", "        1 - a = 1", "        1 + a = 2"]


def test_a_fix_is_a_diff_with_line_numbers() -> None:
    span = at("  a = 1", "1", line=9)
    assert fixing((span, "2\n  b = 3")) == [
        "         9 -   a = 1",
        "         9 +   a = 2",
        "        10 +   b = 3",
    ]


def test_edits_of_one_line_are_shown_together_and_of_others_apart() -> None:
    source = Source("net.mgn", "x = (a]\n\ny = c\n")
    spans = [Span(source, *place) for place in ((4, 5), (6, 7), (13, 14))]
    assert fixing(*zip(spans, "[", strict=False), (spans[1], "]"), (spans[2], "d")) == [
        "        1 - x = (a]",
        "        1 + x = [a]",
        "        3 - y = c",
        "        3 + y = d",
    ]


def test_a_long_line_of_a_fix_is_cut_around_the_change() -> None:
    lines = fixing((at("a" * 300 + "b" + "c" * 300, "b"), "B\x1b"))
    assert all(width(line) <= WIDTH for line in lines)
    assert "ab" in lines[0]
    assert "aB\\x1b" in lines[1]
    assert all(line[12:].startswith("...a") and line.endswith("c...") for line in lines)


@pytest.mark.parametrize(("old", "new"), [("", "b"), ("b", ""), ("b", "bb" * 80)])
def test_a_long_line_of_a_fix_is_cut_where_one_text_goes_on(old: str, new: str) -> None:
    """Both are shown from the same column on, which is where the shorter one ends."""
    source = Source("net.mgn", "a" * 300 + old)
    lines = fixing((Span(source, 300, 300 + len(old)), new))
    assert all(width(line) <= WIDTH for line in lines)
    for line, text in zip(lines, (old, new), strict=True):
        assert line[12:].startswith("...a")
        assert f"a{text[:1]}" in line


def test_a_fix_of_many_lines_is_shown_in_part() -> None:
    source = Source("net.mgn", "x\n" * 40)
    lines = fixing(*((Span(source, 2 * row, 2 * row + 1), "y") for row in range(40)))
    assert len(lines) == 13
    assert lines[-1] == "        ... and 68 more lines"


def test_help_with_long_code_puts_it_below() -> None:
    report = error(None, cure=Help("write", "x" * 90))
    assert render(report).split("\n")[1:] == ["  help: write", "        " + "x" * 90]


def test_text_that_does_not_fit_beside_the_carets_goes_below() -> None:
    assert drawn(at("a" * 80 + " b", "b"), "t" * 60 + "\nu") == [
        "  net.mgn:1  " + "a" * 80 + " b",
        " " * (13 + 81) + "^",
        " " * (13 + 27) + "t" * 60,
        " " * (13 + 27) + "u",
    ]


def test_text_that_fits_nowhere_begins_where_the_code_does() -> None:
    assert drawn(at("x + y", "y"), "t" * 120)[1:] == [" " * 17 + "^", " " * 13 + "t" * 120]


def test_overlong_title_does_not_push_the_code_away() -> None:
    report = error(at("x + y", "y"), remarks=(Remark("inside `cross_entropy`", "loss"),))
    assert render(report).split("\n")[1:] == [
        "  net.mgn:1  x + y",
        "                 ^ here",
        "  inside `cross_entropy`  loss",
    ]


def test_long_file_name_has_its_own_line() -> None:
    name = "projects/" * 5 + "net.mgn"
    assert drawn(at("x + y", "y", name=name)) == [f"  {name}:1", "    x + y", "        ^ here"]


# --- what the user's text may hold ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "columns"),
    [
        ("a\tb ", 7),
        ("层 ", 3),
        ("\uff57 ", 3),
        ("e\u0301 ", 2),
        ("a\u20dd ", 2),
        ("\x1b[31m ", 9),
        ("a\u202eb ", 9),
        ("\xa0x ", 6),
        ("\ud800 ", 7),
    ],
    ids=ascii,
)
def test_caret_stands_under_the_character_it_means(before: str, columns: int) -> None:
    code, carets = drawn(at(f"'{before}y", "y"))
    assert carets == " " * (13 + 1 + columns) + "^ here"
    assert width(code) == 13 + 1 + columns + 1


def test_wide_characters_have_wide_carets() -> None:
    assert drawn(at("x = 层层", "层层"))[1] == " " * 17 + "^^^^ here"


def test_tab_in_the_indentation_is_shown() -> None:
    assert drawn(at("\t\tx = 1", "\t")) == ["  net.mgn:1          x = 1", "             ^^^^ here"]


@pytest.mark.parametrize("end", ["\n", "\r\n", ""], ids=ascii)
def test_line_breaks_are_not_drawn(end: str) -> None:
    source = Source("net.mgn", f"x = 1{end}y = 2{end or ' '}")
    assert drawn(Span(source, 0, len(source.text)))[0].startswith("  net.mgn:1  x = 1")
    assert "\\r" not in render(error(Span(source, 4, 7)))


def test_span_over_several_lines_is_underlined_on_the_first() -> None:
    assert drawn(at("x = (1 +  \n  2)", "(1 +  \n  2)")) == [
        "  net.mgn:1  x = (1 +",
        "                 ^^^^ here",
    ]


def test_empty_span_has_one_caret() -> None:
    source = Source("net.mgn", "x y")
    assert drawn(Span(source, 2, 2))[1] == " " * 15 + "^ here"


@pytest.mark.parametrize("text", ["", "x = (1", "x = (1\n", "x = (1\n  \n"], ids=ascii)
def test_end_of_file(text: str) -> None:
    source = Source("net.mgn", text)
    code, carets = drawn(Span(source, len(text), len(text)))
    column = 13 if not text or text.endswith("\n") else 19
    assert code.endswith("  (end of file)") or text.endswith("1")
    assert carets == " " * column + "^ here"


def test_blank_line_inside_a_file() -> None:
    assert drawn(Span(Source("net.mgn", "x\n\ny"), 2, 2)) == ["  net.mgn:2", "             ^ here"]


@pytest.mark.parametrize("before", [0, 5, 90, 100_000])
@pytest.mark.parametrize("length", [1, 30, 300])
@pytest.mark.parametrize("after", [0, 5, 100_000])
def test_long_line_is_shown_around_its_span(before: int, length: int, after: int) -> None:
    source = Source("net.mgn", "a" * before + "b" * length + "c" * after)
    code, carets = drawn(Span(source, before, before + length), "")
    assert width(code) <= WIDTH
    marked = code[carets.index("^") : len(carets)]
    assert marked == "b" * min(length, len(marked))
    assert len(marked) == length or len(carets) >= WIDTH - 6
    assert ("..." in code) == (before + length + after > WIDTH - 13)


@pytest.mark.parametrize("before", [0, 30, 60, 90])
@pytest.mark.parametrize("after", [0, 10, 60])
def test_a_long_line_of_wide_characters_is_cut_by_its_columns(before: int, after: int) -> None:
    source = Source("net.mgn", "层" * before + "b" + "中" * after)
    code, carets = drawn(Span(source, before, before + 1), "")
    assert width(code) <= WIDTH
    assert width(code[: code.index("b")]) == carets.index("^")
    assert ("..." in code) == (2 * before + 1 + 2 * after > WIDTH - 13)


def test_marks_without_width_do_not_fill_the_screen() -> None:
    source = Source("net.mgn", "x" + "\u0301" * 50_000 + "y")
    assert len(render(error(Span(source, 0, 1)))) < 500


def test_overlong_words_are_cut() -> None:
    assert len(render(error(None, headline=f"unknown name `{'x' * 100_000}`"))) < 500


@given(
    text=some.text(),
    name=some.text(),
    words=some.text(),
    place=some.tuples(some.integers(0, 60), some.integers(0, 60)),
    colour=some.booleans(),
)
def test_nothing_raw_reaches_the_terminal(
    *, text: str, name: str, words: str, place: tuple[int, int], colour: bool
) -> None:
    source = Source(name, text)
    start, end = sorted(min(offset, len(text)) for offset in place)
    span = Span(source, start, end)
    remark = Remark(words, words, span)
    report = error(
        span, words, headline=words, path=words, remarks=(remark,), cure=Help(words, words)
    )
    fixed = safe_fix(words, Edit(span, words))
    shown = render(report, colour=colour) + render(error(span, cure=fixed), colour=colour)
    if colour:
        for paint in ("0", "1", "31", "32", "36", "1;31"):
            shown = shown.replace(f"\x1b[{paint}m", "")
    assert all(char.isprintable() or char == "\n" for char in shown)
    assert render_short(report).isprintable()
    assert max(width(line) for line in drawn(span, "")) <= max(WIDTH, len(printable(name)) + 8)


# --- colour, one line ---------------------------------------------------------------------


def test_colour_changes_nothing_but_colour() -> None:
    span = at("x + y", "y")
    report = error(
        span,
        "one\ntwo",
        remarks=(Remark("also", "", span),),
        cure=safe_fix("do", Edit(span, "z")),
    )
    coloured = render(report, colour=True)
    assert coloured.startswith("\x1b[1;31merror[E0999]\x1b[0m\x1b[1m: wrong\x1b[0m")
    for paint in ("0", "1", "31", "32", "36", "1;31"):
        coloured = coloured.replace(f"\x1b[{paint}m", "")
    assert coloured == render(report)
    assert "\x1b" not in render(report)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environ", "expected"),
    [
        (Terminal(), {}, True),
        (io.StringIO(), {}, False),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {"FORCE_COLOR": "1"}, True),
        (Terminal(), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_when_colour_is_wanted(
    stream: io.StringIO, environ: dict[str, str], *, expected: bool
) -> None:
    assert wants_colour(stream, environ) is expected


def test_short_form() -> None:
    report = error(at("  x + y", "y", line=7), severity=Severity.WARNING, headline="a\nb")
    assert render_short(report) == "net.mgn:7:7: warning[E0999]: a\\nb"
