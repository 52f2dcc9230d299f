"""One small model of each family, for odd sizes, and its reference."""

from functools import partial

from tests.parity.models import Case
from tests.parity.references.convnets import (
    ConvNext,
    DenseNet,
    EfficientNet,
    EfficientNetLite,
    MobileNetV2,
    MobileNetV3,
)
from tests.parity.references.encoders import T5, Bert, Clip, Mamba, WholeWhisper
from tests.parity.references.graphs import Sage
from tests.parity.references.images import DigitsNet, RepVgg, ResNet, UNet, ViT
from tests.parity.references.sequences import Gpt2, Llama, Mixtral, Whisper
from tests.parity.references.swin import Swin

SMALL = [
    Case(
        "digits_cnn",
        """\
        from digits_cnn import DigitsNet
        model net = DigitsNet(width=4, classes=10)
        train fit(image: [n, 1, h, w], target: [n, 10]):
          minimize mse(image |> net, target)
        """,
        lambda: DigitsNet(4),
        {"n": 3, "h": 9, "w": 6},
    ),
    Case(
        "resnet",
        """\
        from resnet import ResNet
        model net = ResNet([2, 2, 1, 1], width=4, classes=5)
        train fit(x: [n, 3, h, w], target: [n, 5]):
          minimize mse(x |> net, target)
        """,
        lambda: ResNet([2, 2, 1, 1], 4, 5),
        {"n": 2, "h": 41, "w": 35},
    ),
    Case(
        "bottleneck",
        """\
        from resnet import ResNet
        model net = ResNet([1, 2, 1, 1], expansion=4, width=3, classes=5, conv_bias=true)
        train fit(x: [n, 3, h, w], target: [n, 5]):
          minimize mse(x |> net, target)
        """,
        lambda: ResNet([1, 2, 1, 1], 3, 5, bottleneck=True, conv_bias=True),
        {"n": 2, "h": 36, "w": 49},
    ),
    Case(
        "repvgg",
        """\
        from repvgg import RepVGG
        model net = RepVGG([1, 2, 2, 1], a=0.125, b=0.0625, groups=4, classes=5)
        train fit(x: [n, 3, h, w], target: [n, 5]):
          minimize mse(x |> net, target)
        """,
        lambda: RepVgg([1, 2, 2, 1], 0.125, 0.0625, 4, 5),
        {"n": 2, "h": 41, "w": 35},
    ),
    Case(
        "densenet",
        """\
        from densenet import DenseNet
        model net = DenseNet(growth=3, depths=[2, 1, 3, 2], width=8, classes=5)
        train fit(x: [n, 3, h, w], target: [n, 5]):
          minimize mse(x |> net, target)
        """,
        lambda: DenseNet(3, [2, 1, 3, 2], 8, 5),
        {"n": 4, "h": 35, "w": 64},
    ),
    Case(
        "mobilenet",
        """\
        from mobilenet import MobileNetV2
        model net = MobileNetV2(stages=[[1, 6, 1, 1], [3, 8, 2, 2], [2, 5, 2, 1]], width=4,
                                last=10, classes=5, dropout=0)
        train fit(x: [n, 3, h, w], target: [n, 5]):
          minimize mse(x |> net, target)
        """,
        lambda: MobileNetV2([[1, 6, 1, 1], [3, 8, 2, 2], [2, 5, 2, 1]], 4, 10, 5),
        {"n": 2, "h": 17, "w": 22},
    ),
    Case(
        "mobilenet_v3",
        """\
        from mobilenet_v3 import MobileNetV3
        model net = MobileNetV3(layers=[[3, 4, 4, 3, 0, 1], [5, 8, 6, 0, 1, 2], [3, 9, 6, 4, 1, 1]],
                                last=10, width=4, classes=5, dropout=0)
        train fit(x: [n, 3, h, w], target: [n, 5]):
          minimize mse(x |> net, target)
        """,
        lambda: MobileNetV3([[3, 4, 4, 3, 0, 1], [5, 8, 6, 0, 1, 2], [3, 9, 6, 4, 1, 1]], 10, 5, 4),
        {"n": 2, "h": 17, "w": 22},
    ),
    Case(
        "convnext",
        """\
        from convnext import ConvNext
        model net = ConvNext(stages=[[6, 1], [8, 2]], patch=3, classes=5, drop_path=0)
        train fit(x: [n, 3, h, w], target: [n, 5])
            where h >= 6, w >= 6:
          minimize mse(x |> net, target)
        """,
        lambda: ConvNext([(6, 1), (8, 2)], 3, 5),
        {"n": 2, "h": 14, "w": 20},
    ),
    Case(
        "swin",
        """\
        from swin import Swin
        model net = Swin(d=6, stages=[[2, 2], [2, 3]], window=4, image=16, patch=2, classes=5)
        train fit(x: [n, 3, 16, 16], target: [n, 5]):
          minimize mse(x |> net, target)
        """,
        lambda: Swin(6, [2, 2], [2, 3], 4, 16, 2, 5),
        {"n": 2},
    ),
    Case(
        "bert",
        """\
        from bert import Bert
        model net = Bert(vocabulary=11, positions=9, d=12, layers=2, heads=3, ffn=20)
        train fit(ids: i32[n, s], target: [n, 12])
            where s <= 9:
          minimize mse(ids |> net, target)
        """,
        lambda: Bert(11, 9, 12, 2, 3, 20),
        {"n": 2, "s": 7},
    ),
    Case(
        "clip",
        """\
        from clip import Clip
        model net = Clip(vocabulary=11, positions=9, d=12, layers=1, heads=3, image=6, patch=2,
                         width=12, depth=1, image_heads=3, projection=5)
        train fit(picture: [n, 3, 6, 6], ids: i32[n, s], target: [n, n])
            where s <= 9:
          minimize mse(picture |> net(ids), target)
        """,
        lambda: Clip(11, 9, 12, 3, 6, 2, 5),
        {"n": 2, "t": 2, "s": 7},
    ),
    Case(
        "sage-mean",
        """\
        from sage import Sage
        model net = Sage(d=3, hidden=5, classes=2, pool="mean")
        train fit(x: whole [v, 3], source: whole i32[e], to: whole i32[e], target: [v, 2])
            where 0 <= source, source < v, 0 <= to, to < v:
          minimize mse(x |> net(source, to), target)
        """,
        lambda: Sage(3, 5, 2, "mean"),
        {"v": 11, "e": 17},
    ),
    Case(
        "sage-max",
        """\
        from sage import Sage
        model net = Sage(d=3, hidden=5, classes=2, pool="max")
        train fit(x: whole [v, 3], source: whole i32[e], to: whole i32[e], target: [v, 2])
            where 0 <= source, source < v, 0 <= to, to < v:
          minimize mse(x |> net(source, to), target)
        """,
        lambda: Sage(3, 5, 2, "max"),
        {"v": 11, "e": 17},
    ),
    Case(
        "t5",
        """\
        from t5 import T5
        model net = T5(vocabulary=11, d=12, layers=2, heads=2, width=5, ffn=20, count=8)
        train fit(prompt: i32[n, t], ids: i32[n, s], target: [n, s, 11]):
          minimize mse(prompt |> net(ids), target)
        """,
        lambda: T5(11, 12, 2, 2, 5, 20, 8),
        {"n": 2, "t": 40, "s": 150},
    ),
    Case(
        "mamba",
        """\
        from mamba import Mamba
        model net = Mamba(vocabulary=11, d=6, layers=2, state=3, rank=2)
        train fit(ids: i32[n, s], target: [n, s, 11]):
          minimize mse(ids |> net, target)
        """,
        lambda: Mamba(11, 6, 2, 3, 2),
        {"n": 2, "s": 9},
    ),
    Case(
        "efficientnet",
        """\
        from efficientnet import EfficientNet
        model net = EfficientNet(stages=[[1, 3, 1, 6, 1], [3, 5, 2, 8, 2], [2, 3, 2, 5, 1]],
                                 width=4, last=10, classes=5, dropout=0, drop_path=0)
        train fit(x: [n, 3, h, w], target: [n, 5]):
          minimize mse(x |> net, target)
        """,
        lambda: EfficientNet([[1, 3, 1, 6, 1], [3, 5, 2, 8, 2], [2, 3, 2, 5, 1]], 4, 10, 5),
        {"n": 2, "h": 17, "w": 22},
    ),
    *(
        Case(
            f"efficientnet_lite{'-same' if same else ''}",
            f"""\
            from efficientnet_lite import EfficientNetLite
            model net = EfficientNetLite(stages=[[1, 3, 1, 6, 1], [3, 5, 2, 8, 2], [2, 3, 2, 5, 1]],
                                         width=4, last=10, classes=5, dropout=0, drop_path=0,
                                         same={str(same).lower()}, eps={eps})
            train fit(x: [n, 3, h, w], target: [n, 5]):
              minimize mse(x |> net, target)
            """,
            partial(
                EfficientNetLite,
                [[1, 3, 1, 6, 1], [3, 5, 2, 8, 2], [2, 3, 2, 5, 1]],
                4,
                10,
                5,
                same=same,
                eps=eps,
            ),
            {"n": 2, "h": 17, "w": 22},
        )
        for same, eps in ((False, 1e-5), (True, 1e-3))
    ),
    Case(
        "vit",
        """\
        from vit import ViT
        model net = ViT(d=12, layers=2, heads=3, image=12, patch=4, classes=5)
        train fit(x: [n, 3, 12, 12], target: [n, 5]):
          minimize mse(x |> net, target)
        """,
        lambda: ViT(12, 2, 3, 12, 4, 5),
        {"n": 2},
    ),
    Case(
        "unet",
        """\
        from unet import UNet
        model net = UNet(base=8, groups=4)
        train fit(x: [n, 4, h, w], level: [n], target: [n, 4, h, w]):
          minimize mse(x |> net(level), target)
        """,
        lambda: UNet(8, 4),
        {"n": 2, "h": 8, "w": 12},
    ),
    *(
        Case(
            f"whisper-{frames}",
            """\
            from whisper import WhisperEncoder
            model net = model.encoder: WhisperEncoder(
                d=12, heads=3, layers=2, ffn=20, mels=7, positions=9)
            train fit(mel: [n, 7, t], target: [n, (t + 1) // 2, 12]):
              minimize mse(mel |> net, target)
            """,
            lambda: Whisper(d=12, heads=3, layers=2, ffn=20, mels=7, positions=9),
            {"n": 2, "t": frames},
        )
        for frames in (18, 17, 5)
    ),
    Case(
        "whisper-full",
        """\
        from whisper import Whisper
        model net = Whisper(d=12, heads=3, layers=2, ffn=20, mels=7, positions=9, vocabulary=11,
                            length=8)
        train fit(mel: [n, 7, 18], ids: i32[n, s], target: [n, s, 11]):
          minimize mse(mel |> net(ids), target)
        """,
        lambda: WholeWhisper(d=12, heads=3, layers=2, ffn=20, mels=7, positions=9, words=11),
        {"n": 2, "s": 7},
    ),
    Case(
        "lm",
        """\
        from lm import Decoder
        model net = Decoder(vocabulary=11, d=12, layers=2, heads=6, kv_heads=2, ffn=20, head_dim=4,
                            theta=100.0)
        train fit(ids: i32[n, s], target: [n, s, 11]):
          minimize mse(ids |> net, target)
        """,
        lambda: Llama(11, 12, 2, (6, 2, 4), 20, 100.0),
        {"n": 2, "s": 7},
    ),
    Case(
        "mixtral",
        """\
        from mixtral import Mixtral
        model net = Mixtral(vocabulary=11, d=12, layers=2, heads=6, kv_heads=2, ffn=10, experts=5,
                            head_dim=4, theta=100.0, tile=3)
        train fit(ids: i32[n, s], target: [n, s, 11]):
          minimize mse(ids |> net, target)
        """,
        lambda: Mixtral(11, 12, 2, (6, 2, 4), 10, 100.0, 5),
        {"n": 2, "s": 7},
    ),
    Case(
        "gpt2",
        """\
        from gpt2 import Gpt2
        model net = Gpt2(vocabulary=11, positions=9, d=12, layers=2, heads=3)
        train fit(ids: i32[n, s], target: [n, s, 11]):
          minimize mse(ids |> net, target)
        """,
        lambda: Gpt2(11, 9, 12, 2, 3),
        {"n": 2, "s": 7},
    ),
]

FAMILIES = [case for case in SMALL if case.name not in ("whisper-18", "whisper-5")]
"""Each family once."""
