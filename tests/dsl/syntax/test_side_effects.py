"""A line that calls something for what it does besides computing is told what takes its place."""

import pytest

from meganeura_dsl.diagnostics.problem import Report
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check

BLOCK = "block Net()(x: [n, d]) -> [n, d]:\n  {}\n  return relu(x)\n"
TRAIN = """\
block Net()(x: [n, c, h, w]) -> [n, c, h, w] = x
model net = Net()
train fit(x: [n, 1, 8, 8]):
  loss = mean(x |> net)
  {}
  minimize loss
"""


def refused(text: str) -> Report:
    return check(Source("net.mgn", text), lambda *_: None).reports[0]


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("logger.info(x)", "E0138", "return the value as well"),
        ('wandb.log({"loss": x})', "E0138", "return the value as well"),
        ("wandb.log({'loss': x})", "E0138", "return the value as well"),
        ("plt.plot(x)", "E0138", "return the value as well"),
        ('tqdm.write("a")', "E0138", "return the value as well"),
        ('tf.summary.scalar("a", x)', "E0138", "return the value as well"),
        ("breakpoint()", "E0121", "return the value as well"),
        ('np.save("a.npy", x)', "E0138", "meganeura run -o"),
        ('torch.save(x, "a.pt")', "E0138", "meganeura run -o"),
        ("torch.manual_seed(0)", "E0138", "seed = 0"),
        ("np.random.seed(0)", "E0138", "seed = 0"),
        ("net.eval()", "E0138", "`training`"),
        ("model.eval()", "E0138", "`training`"),
        ("losses.append(x)", "E0138", "concat"),
        ("nn.init.xavier_uniform_(w)", "E0138", "where it is declared"),
        ("torch.nn.utils.clip_grad_norm_(w, 1.0)", "E0138", "clip_norm"),
        ("x.register_hook(f)", "E0138", "`grad`"),
        ("super().__init__()", "E0138", "leave the line out"),
        ("os.makedirs(path)", "E0138", "leave the line out"),
        ("time.sleep(1)", "E0138", "leave the line out"),
        ("x.clamp_(0, 1)", "E0138", "bind the name"),
        ("x.squash()", "E0138", "bind a name"),
        ("del x", "E0121", "leave the line out"),
        ("with torch.no_grad():", "E0121", "stop_gradient"),
        ("self.fc = nn.Linear(784, 128)", "E0121", "x |> fc: linear(128)"),
        ("self.c1 = nn.Conv2d(3, 8, 3, padding=1)", "E0121", "x |> c1: conv2d(8, 3, pad=1)"),
        ("relu(x)", "E0132", "x = relu(x)"),
        ("x |> fc: linear(d)", "E0132", "y = x |> fc: linear(d)"),
    ],
)
def test_a_line_of_a_block_that_only_does_something(line: str, code: str, said: str) -> None:
    report = refused(BLOCK.format(line))
    assert report.code == code
    assert report.help is not None
    assert said in f"{report.help.text} {report.help.code}"
    assert report.help.edits == ()


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("print(loss)", "metric mean_loss = mean(loss)"),
        ("logger.info(loss)", "metric mean_loss = mean(loss)"),
        ('wandb.log("loss", loss)', "metric mean_loss = mean(loss)"),
        ("plt.imshow(x)", "show picture = x"),
    ],
)
def test_what_a_training_shows_is_a_metric_or_a_picture(line: str, becomes: str) -> None:
    report = refused(TRAIN.format(line))
    assert report.help is not None
    assert report.help.code == becomes
    assert check(Source("net.mgn", TRAIN.format(becomes)), lambda *_: None).fine


def test_a_function_that_the_file_declares_gives_a_value() -> None:
    report = refused("def log(x) = x * 2\n" + BLOCK.format("log(x)"))
    assert (report.code, report.help and report.help.code) == ("E0132", "x = log(x)")


def test_a_list_that_grows_in_a_scan_is_collected_along_its_axis() -> None:
    text = """\
block Sums(k)(x: [s, d]) -> [d]:
  h = zeros([d])
  kept = []
  scan t in 0..s:
    h = h + x[t]
    {}
  return h
"""
    cures = {
        "kept.append(h)": "kept[t] = h",
        "kept.extend(h)": "kept = kept + h",
        "if k > 1:\n      kept.append(h)": "kept[t] = h",
    }
    for line, code in cures.items():
        report = refused(text.format(line))
        assert (report.code, report.help and report.help.code) == ("E0138", code)


@pytest.mark.parametrize(
    ("over", "code"),
    [
        ("parameters(net)", None),
        ("net.parameters(), other.fc.parameters()", "minimize x over net, other.fc"),
        ("net.trainable_variables()", "minimize x over net"),
        ("net()", None),
    ],
)
def test_what_is_moved_is_called_by_its_path(over: str, code: str | None) -> None:
    report = refused(TRAIN.replace("minimize loss", "minimize x over {}").format("y = x", over))
    assert report.help is not None
    assert report.help.code == code
    if code is None:
        assert report.help.text.endswith("`minimize x over net`")
