"""`meganeura check` and the data that ships with the standard models."""

from pathlib import Path

import pytest

from tests.cli.command import Command

NET = """\
block Net()(x: [n, {width}]) -> [n, 10]:
  return x |> fc: linear(10)

model net = Net()

train fit({image}, {label}):
  x = {made}
  minimize cross_entropy(x |> net, label)
  run:
    data      = {data}
    batch     = 32
    epochs    = 1
    optimizer = sgd(lr=0.01)
"""
FLAT = "rearrange(image, [batch, 1, h, w] -> [batch, h * w])"
FITS = {
    "width": "64",
    "image": "image: [batch, 1, 8, 8]",
    "label": "label: i32[batch]",
    "made": FLAT,
    "data": '"digits"',
}


def written(folder: Path, **changed: str) -> str:
    path = folder / "net.mgn"
    path.write_text(NET.format(**{**FITS, **changed}))
    return str(path)


def test_data_that_fits_is_fine(meganeura: Command, tmp_path: Path) -> None:
    assert meganeura("check", written(tmp_path)).code == 0


@pytest.mark.parametrize(
    ("changed", "code", "cure"),
    [
        ({"image": "image: [batch, 64]", "made": "image"}, "E0523", f"{FLAT}"),
        (
            {"image": "image: [batch, 1, 28, 28]", "width": "784"},
            "E0523",
            "image: [batch, 1, 8, 8]",
        ),
        (
            {
                "image": "image: [batch, 8, 8, 1]",
                "made": "rearrange(image, [batch, h, w, 1] -> [batch, h * w])",
            },
            "E0523",
            "rearrange(image, [batch, 1, h, w] -> [batch, h, w, 1])",
        ),
        ({"data": 'file("digits", label="class")'}, "E0522", 'data = "digits"'),
    ],
)
def test_embedded_data_that_does_not_fit_is_told_before_a_run(
    changed: dict[str, str], code: str, cure: str, meganeura: Command, tmp_path: Path
) -> None:
    shown = meganeura("check", written(tmp_path, **changed))
    assert shown.code == 1
    assert f"error[{code}]" in shown.out
    assert cure in shown.out.split("help:")[1]


def test_data_of_other_files_is_left_to_a_run(meganeura: Command, tmp_path: Path) -> None:
    assert meganeura("check", written(tmp_path, data='"digits.npz"')).code == 0


@pytest.mark.parametrize(
    ("names", "data", "named"),
    [
        (("x", "y"), '"digits"', 'x="image", y="label"'),
        (("images", "labels"), '"digits"', 'images="image", labels="label"'),
        (("image", "y"), '"digits"', 'y="label"'),
        (("x", "y"), 'file("digits", y="label")', 'x="image", y="label"'),
        (("x", "label"), 'file("digits", label="class")', 'x="image"'),
    ],
)
def test_inputs_of_other_names_are_told_the_tensors_that_fit_all_of_them(
    names: tuple[str, str], data: str, named: str, meganeura: Command, tmp_path: Path
) -> None:
    file = tmp_path / "net.mgn"
    image, label = names
    program = f"""\
train fit({image}: [batch, 1, 8, 8], {label}: i32[batch]):
  flat = rearrange({image}, [n, 1, h, w] -> [n, h * w])
  minimize cross_entropy(flat |> fc: linear(10), {label})
  run:
    data = {data}
    batch = 8
"""
    file.write_text(program)
    shown = meganeura("check", str(file))
    assert "error[E0522]" in shown.out
    assert ("call the inputs `image` and `label`" in shown.out) == ("," in named)
    assert f'data = file("digits", {named})' in shown.out
    file.write_text(program.replace(data, f'file("digits", {named})'))
    assert meganeura("check", str(file)).code == 0
