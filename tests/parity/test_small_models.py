"""The smaller standard models against PyTorch: outputs, gradients, and five steps of training."""

import pytest

from meganeura_dsl.ir.interpreter import Precision
from tests.parity import models
from tests.parity.models import Case
from tests.parity.references.diffusion import DiT
from tests.parity.references.masked import Mae
from tests.parity.references.small import (
    Autoencoder,
    BertGuesses,
    Critic,
    Generator,
    LoraGpt2,
    Perceptron,
    RecurrentLm,
    Regressor,
    SentenceBert,
    Solution,
    Tagger,
    WassersteinCritic,
    WhisperFrames,
    WhisperWords,
)
from tests.parity.references.spectral import S4D, Fno

pytestmark = pytest.mark.parity

TOKENS = """\
    {imports}
    model net = {net}
    train fit(ids: i32[n, s], target: [n, s, {out}]):
      minimize mse(ids |> net, target)
    """

CASES = [
    Case(
        "digits_mlp",
        """\
        from digits_mlp import Perceptron
        model net = Perceptron(hidden=7, classes=5)
        train fit(image: [n, 1, 8, 8], target: [n, 5]):
          minimize mse(image |> net, target)
        """,
        lambda: Perceptron(7, 5),
        {"n": 4},
    ),
    Case(
        "lora",
        TOKENS.format(
            imports="from gpt2 import Gpt2\n    from lora import lora",
            net="Gpt2(vocabulary=11, positions=9, d=12, layers=2, heads=3, fc=lora(r=3))",
            out=11,
        ),
        lambda: LoraGpt2(11, 9, 12, 2, 3),
        {"n": 2, "s": 7},
    ),
    Case(
        "minilm",
        """\
        from bert import SentenceEncoder
        block Net()(ids: i32[n, s]) -> [n, 12]
            where s <= 9:
          seen = expand(iota(s), [s] -> [n, s]) < 5
          return ids |> .: SentenceEncoder(vocabulary=11, positions=9, d=12, layers=2, heads=3,
                                           ffn=20)(seen)
        model net = Net()
        train fit(ids: i32[n, s], target: [n, 12])
            where s <= 9:
          minimize mse(ids |> net, target)
        """,
        lambda: SentenceBert(5, 11, 9, 12, 2, 3, 20),
        {"n": 2, "s": 7},
    ),
    Case(
        "lstm_lm",
        TOKENS.format(
            imports="from recurrent import LstmLm",
            net="LstmLm(vocabulary=11, d=5, hidden=6)",
            out=11,
        ),
        lambda: RecurrentLm("lstm", 11, 5, 6),
        {"n": 2, "s": 7},
    ),
    Case(
        "gru_lm",
        TOKENS.format(
            imports="from recurrent import GruLm",
            net="GruLm(vocabulary=11, d=5, hidden=6)",
            out=11,
        ),
        lambda: RecurrentLm("gru", 11, 5, 6),
        {"n": 2, "s": 7},
    ),
    Case(
        "tagger",
        TOKENS.format(
            imports="from recurrent import Tagger",
            net="Tagger(words=11, d=5, hidden=6, tags=3)",
            out=3,
        ),
        lambda: Tagger(11, 5, 6, 3),
        {"n": 2, "s": 7},
    ),
    Case(
        "whisper_words",
        """\
        from whisper import WhisperClassifier
        model net = WhisperClassifier(classes=5, d=8, heads=2, layers=1, ffn=10)
        train fit(mel: [n, 80, t], target: [n, 5])
            where t <= 3000:
          minimize mse(mel |> net, target)
        """,
        lambda: WhisperWords(5, 8, 2, 1, 10),
        {"n": 2, "t": 9},
    ),
    Case(
        "whisper_frames",
        """\
        from whisper import WhisperFrames
        model net = WhisperFrames(d=8, heads=2, layers=1, ffn=10, classes=5)
        train fit(mel: [n, 80, t], target: [n, (t + 1) // 2, 5])
            where t <= 3000:
          minimize mse(mel |> net, target)
        """,
        lambda: WhisperFrames(5, 8, 2, 1, 10),
        {"n": 2, "t": 9},
    ),
    Case(
        "bert_tiny",
        """\
        from bert import Guesses
        model net = Guesses(vocabulary=11, positions=9, d=12, layers=2, heads=3, ffn=20)
        train fit(ids: i32[n, s], target: [n, s, 11])
            where s <= 9:
          minimize mse(ids |> net, target)
        """,
        lambda: BertGuesses(11, 9, 12, 2, 3, 20),
        {"n": 2, "s": 7},
    ),
    Case(
        "vae",
        """\
        from vae import Decoder, Encoder
        block Net()(image: [n, 1, 8, 8]) -> [n, 1, 8, 8]:
          center, log_variance = image |> encoder: Encoder(hidden=6)
          return (center + log_variance) |> decoder: Decoder(hidden=6)
        model net = Net()
        train fit(image: [n, 1, 8, 8], target: [n, 1, 8, 8]):
          minimize mse(image |> net, target)
        """,
        lambda: Autoencoder(6),
        {"n": 3},
    ),
    Case(
        "gan",
        """\
        from gan import Generator
        model net = Generator(hidden=6)
        train fit(z: [n, 16], target: [n, 1, 8, 8])
            where n >= 2:
          minimize mse(z |> net, target)
        """,
        lambda: Generator(6),
        {"n": 6},
    ),
    Case(
        "gan-critic",
        """\
        from gan import Critic
        model net = Critic(hidden=6)
        train fit(image: [n, 1, 8, 8], target: [n]):
          minimize mse(image |> net(training=false), target)
        """,
        lambda: Critic(6),
        {"n": 4},
    ),
    Case(
        "wgan-critic",
        """\
        from wgan import Critic
        model net = Critic(width=3)
        train fit(image: [n, 1, 8, 8], target: [n]):
          minimize mse(image |> net, target)
        """,
        lambda: WassersteinCritic(3),
        {"n": 4},
    ),
    Case(
        "maml",
        """\
        from maml import Regressor
        model net = Regressor(hidden=5)
        train fit(x: [n, 1], target: [n, 1]):
          minimize mse(x |> net, target)
        """,
        lambda: Regressor(5),
        {"n": 4},
    ),
    Case(
        "s4d",
        """\
        from s4d import Net
        block Waves()(x: [n, 2, 9]) -> [n, 5]:
          return x |> .: Net(width=4, depth=2, states=3, classes=5, rows=2)
        model net = Waves()
        train fit(x: [n, 2, 9], target: [n, 5]):
          minimize mse(x |> net, target)
        """,
        lambda: S4D(2, 4, 2, 3, 5),
        {"n": 4},
    ),
    Case(
        "dit",
        """\
        from dit import DiT
        model net = DiT(d=12, layers=2, heads=3, image=6, patch=2, channels=3, classes=10)
        train fit(x: [n, 3, 6, 6], level: [n], label: i32[n], target: [n, 6, 6, 6])
            where 0 <= label, label <= 10:
          minimize mse(x |> net(level, label), target)
        """,
        lambda: DiT(12, 2, 3, 6, 2, 3, 10),
        {"n": 2},
    ),
    Case(
        "mae",
        """\
        from mae import Mae
        block Net()(x: [n, 3, 6, 6], noise: [n, 9]) -> [n, 9, 12]:
          out = x |> .: Mae(d=24, layers=2, heads=3, decoder_d=12, decoder_layers=1,
                            decoder_heads=3, image=6, patch=2, kept=4)(noise)
          return out.pixels * (1 + insert_axis(f32(out.hidden), 2, 12))
        model net = Net()
        train fit(x: [n, 3, 6, 6], noise: [n, 9], target: [n, 9, 12]):
          minimize mse(x |> net(noise), target)
        """,
        lambda: Mae(24, 2, 3, 6, 2, 4),
        {"n": 2},
    ),
    Case(
        "fno",
        """\
        from fno import Fno
        model net = Fno(width=4, depth=2, modes=3)
        train fit(x: [n, s], target: [n, s])
            where 5 <= s, s <= 99:
          minimize mse(x |> net, target)
        """,
        lambda: Fno(4, 2, 3),
        {"n": 3, "s": 9},
    ),
    Case(
        "pinn",
        """\
        from pinn import Solution
        model net = Solution(hidden=5, depth=3)
        train fit(x: [n], t: [n], target: [n]):
          minimize mse(x |> net(t), target)
        """,
        lambda: Solution(5, 3),
        {"n": 4},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_output_gradients_and_five_steps(case: Case) -> None:
    module = models.reference(case)
    values = models.weights(case, module)
    data = models.drawn(models.training(case).inputs, 1)
    given = {name: data[name] for name in models.inference(case).inputs}
    expected = models.their_forward(module, given)
    found = models.forward(case, values, given, Precision.DOUBLE)
    models.assert_near({"output": found}, {"output": expected}, 1e-12)
    theirs = models.their_step(module, data)
    ours = models.step(case, values, data, Precision.DOUBLE)
    models.assert_near(ours.gradients, theirs.gradients, 1e-11)
    assert ours.gradients.keys() == models.trainable(models.training(case).parameters)
    optimizer, torchs = models.OPTIMIZERS["sgd"]
    trained = models.trained_weights(case, values, optimizer, Precision.SINGLE)
    after = models.their_trained_weights(case, models.loaded(case, values), torchs)
    models.assert_near(trained, after, 1e-4)
