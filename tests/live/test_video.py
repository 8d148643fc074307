"""Videos: what is in the file is what was played; nothing is left of one that failed."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("ale_py")

from scripted_network import Scripted, uniform

from simsched.live.errors import DivergedError, LiveError
from simsched.live.ga3c.evaluation import evaluate
from simsched.live.ga3c.settings import Settings
from simsched.live.ga3c.twins import Picture
from simsched.live.ga3c.video import VideoWriter, frames_per_s, record_video

pytestmark = pytest.mark.torch


def decoded(path: Path) -> tuple[list[Picture], Fraction | None]:
    av = pytest.importorskip("av")
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("h264", "yuv420p")
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)], (
            stream.average_rate
        )


def test_a_video_shows_the_episode(tmp_path: Path) -> None:
    pytest.importorskip("av")
    settings, path = Settings(game="Breakout", sticky_actions=0.25), tmp_path / "breakout.mp4"
    pictures: list[Picture] = []
    episodes = evaluate(uniform(4), settings, seed=4, on_frame=pictures.append)
    assert [record_video(uniform(4), settings, path, seed=4)] == episodes
    frames, rate = decoded(path)
    assert rate == 15
    assert len(frames) == len(pictures) == episodes[0].steps + 1
    for frame, picture in zip(frames, pictures, strict=True):
        assert frame.shape == (420, 320, 3)
        error = np.abs(frame[::2, ::2].astype(int) - picture)
        assert error.mean() < 1.5
    # The order of the colours, and which way is up: the top row of bricks is red.
    assert frames[0][2 * 60, 160].argmax() == 0
    again = tmp_path / "again.mp4"
    record_video(uniform(4), settings, again, seed=4)
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("size", "large"),
    [((10, 10), (320, 320)), ((7, 107), (22, 322)), ((3, 5), (192, 320)), ((401, 601), (402, 602))],
)
def test_pictures_of_any_size_stay_crisp(
    size: tuple[int, int], large: tuple[int, int], tmp_path: Path
) -> None:
    pytest.importorskip("av")
    shades = np.random.default_rng(0).integers(0, 2, (5, *size, 1)).astype(np.uint8) * 255
    pictures = shades.repeat(3, axis=3)
    with VideoWriter(tmp_path / "a.mp4", fps=29.97) as video:
        for picture in pictures:
            video.write(picture)
        assert not (tmp_path / "a.mp4").exists()
    frames, rate = decoded(tmp_path / "a.mp4")
    assert [frame.shape for frame in frames] == [(*large, 3)] * 5
    assert rate == pytest.approx(29.97, abs=1e-3)
    factor = -(-320 // size[1])
    middles = slice(factor // 2, None, factor)
    for frame, picture in zip(frames, pictures, strict=True):
        centres = frame[middles, middles][: size[0], : size[1]].astype(int)
        assert np.abs(centres - picture).mean() < 12


def test_what_fails_leaves_no_file(tmp_path: Path) -> None:
    pytest.importorskip("av")
    path, black = tmp_path / "a.mp4", np.zeros((4, 4, 3), np.uint8)
    path.write_text("old")

    def write(*pictures: Any, error: Exception | None = None) -> None:
        with VideoWriter(path) as video:
            for picture in pictures:
                video.write(picture)
            if error is not None:
                raise error

    with pytest.raises(KeyError, match="mine"):
        write(black, error=KeyError("mine"))
    with pytest.raises(KeyError, match="mine"):
        write(error=KeyError("mine"))
    with pytest.raises(LiveError, match=r"a\.mp4: a video needs at least one picture"):
        write()
    with pytest.raises(LiveError, match=r"shape \(4, 5, 3\) follows one of \(4, 4, 3\)"):
        write(black, np.zeros((4, 5, 3), np.uint8))
    for wrong in (black / 2, black[0], black[:0]):
        with pytest.raises(LiveError, match=r"it must be uint8 of shape \(height, width, 3\)"):
            write(wrong)
    with pytest.raises(LiveError, match="cannot be written: File name too long"):
        VideoWriter(tmp_path / f"{300 * 'a'}.mp4").__enter__()
    with pytest.raises(DivergedError):
        record_video(Scripted([[float("nan")] * 4]), Settings(game="Breakout"), path, seed=0)
    assert [each.name for each in tmp_path.iterdir()] == ["a.mp4"]
    assert path.read_text() == "old"


def test_names_of_files_and_rates(tmp_path: Path) -> None:
    pytest.importorskip("av")
    for path, message in (
        (tmp_path / "a.gif", r"a\.gif: videos are written as MP4, use a name that ends in \.mp4"),
        (tmp_path / "b" / "a.mp4", r"there is no folder .*b, make it first"),
    ):
        with pytest.raises(LiveError, match=message):
            VideoWriter(path)
    with pytest.raises(LiveError, match="fps: nan is outside 1 to 1000"):
        VideoWriter(tmp_path / "a.mp4", fps=float("nan"))
    assert frames_per_s("Pong") == 15
    assert frames_per_s("CartPole-v1") == 50
