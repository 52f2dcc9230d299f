"""Files decoded by other processes: what is asked and answered, and an answer that is cut short."""

import os
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from PIL import Image

from meganeura_runtime.io.data import decode_pool
from meganeura_runtime.io.data.decode_worker import DONE, FAILED, decode
from meganeura_runtime.io.data.decoders import ImageDecoder
from meganeura_runtime.io.preprocess.images import Cover, Filter, ImageSteps, Middle

STEPS = ImageSteps(Cover(4, 4), Middle(4, 4), Filter.BILINEAR, 1 / 255, (0.0,), (1.0,))
DECODER = ImageDecoder(3, 4, 4, STEPS)


def answers(content: bytes) -> BufferedReader:
    return BufferedReader(cast("Any", BytesIO(content)))


def test_a_file_is_answered_whatever_it_is_called(tmp_path: Path) -> None:
    names = [b"a.png", b"\xff\xfe.png", "ä.png".encode(), b"missing.png"]
    paths = [os.fsencode(tmp_path) + b"/" + name for name in names]
    for number, path in enumerate(paths[:3]):
        picture = Image.fromarray(np.full((4, 4, 3), 51 * (number + 1), np.uint8))
        picture.save(os.fsdecode(path))
    out = BytesIO()
    decode(DECODER, iter(paths), out)
    stream = answers(out.getvalue())
    for number in range(3):
        found = np.zeros((3, 4, 4), np.float32)
        assert decode_pool._is_answered(stream, found)
        np.testing.assert_allclose(found, 0.2 * (number + 1), rtol=1e-5)
    assert stream.read() == FAILED


@pytest.mark.parametrize("length", [0, 1, 2, 4 * 48, 4 * 48 + 1])
def test_an_answer_that_is_cut_short_is_the_end_of_its_process(length: int) -> None:
    whole = DONE + np.ones(48, np.float32).tobytes()
    found = np.zeros((3, 4, 4), np.float32)
    if length == len(whole):
        assert decode_pool._is_answered(answers(whole), found)
        assert found.min() == 1
    else:
        with pytest.raises(EOFError):
            decode_pool._is_answered(answers(whole[:length]), found)


def test_a_process_of_its_own_session_is_not_interrupted_with_the_one_that_asks() -> None:
    process = decode_pool._started(DECODER)
    try:
        assert os.getsid(process.pid) == process.pid != os.getsid(0)
    finally:
        process.kill()
        process.communicate()
