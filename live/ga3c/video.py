"""Videos: a played episode as an MP4 file that browsers show."""

import contextlib
import math
import os
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np
from torch import nn

from simsched.live.errors import LiveError
from simsched.live.ga3c.evaluation import MAX_STEPS, Evaluation, evaluate
from simsched.live.ga3c.games import FRAME_SKIP, canonical_game, is_atari
from simsched.live.ga3c.settings import Settings
from simsched.live.ga3c.twins import Picture, metadata

if TYPE_CHECKING:
    from av import VideoStream
    from av.container import OutputContainer

FRAMES_PER_S = 60 / FRAME_SKIP
"""Pictures per second of an Atari game, one per agent step, at the console's 60 Hz."""

_LEAST_WIDTH = 320


class VideoWriter:
    """Writes pictures to an .mp4 file: H.264, enlarged by a whole factor to 320 pixels and more.

    The file appears whole when the `with` block is left, and not at all if by an exception.
    The same pictures give the same bytes, with the same version of `av`.
    """

    def __init__(self, path: Path | str, *, fps: float = FRAMES_PER_S) -> None:
        """Check that a video can be written; nothing is written yet.

        Raises:
            LiveError: the name does not end in .mp4, its folder is missing or cannot be written to,
                the frames per second are outside 1 to 1000, or `av` is not installed.
        """
        self._path = Path(path)
        if self._path.suffix.lower() != ".mp4":
            raise LiveError(f"{path}: videos are written as MP4, use a name that ends in .mp4")
        if not os.path.isdir(self._path.parent):
            raise LiveError(f"{path}: there is no folder {self._path.parent}, make it first")
        if not os.access(self._path.parent, os.W_OK):
            raise LiveError(f"{path}: nothing can be written in the folder {self._path.parent}")
        if os.path.isdir(self._path):
            raise LiveError(f"{path}: this is a folder, use another name")
        if not 1 <= fps <= 1000:
            raise LiveError(f"fps: {fps} is outside 1 to 1000")
        try:
            import av
        except ImportError as error:
            raise LiveError(
                "av is not installed, videos need it: pip install 'simsched[live]'"
            ) from error
        self._av = av
        self._rate = Fraction(fps).limit_denominator(1001)
        self._temporary = self._path.with_name(f".{self._path.name}.tmp")
        self._container: OutputContainer | None = None
        self._stream: VideoStream | None = None
        self._shape: tuple[int, ...] = ()

    def __enter__(self) -> Self:
        """Open a temporary file beside the video; LiveError if that cannot be written."""
        with self._writing():
            self._temporary.unlink(missing_ok=True)  # a link of that name would be followed
            self._container = self._av.open(
                str(self._temporary), "w", format="mp4", options={"movflags": "+faststart"}
            )
            self._temporary.touch()  # av would only fail at the first picture
        return self

    def write(self, picture: Picture) -> None:
        """Add a picture (height, width, 3), red, green and blue.

        Raises:
            LiveError: it is no such picture, or not of the size of the first one.
        """
        if self._container is None:
            raise LiveError(f"{self._path}: use the video writer in a with statement")
        if picture.shape[2:] != (3,) or not picture.size or picture.dtype != np.uint8:
            raise LiveError(
                f"{self._path}: a picture is {picture.dtype} of shape {picture.shape}, "
                "it must be uint8 of shape (height, width, 3)"
            )
        large = _enlarge(picture)
        if self._stream is None:
            self._stream = self._open_stream(self._container, large)
            self._shape = picture.shape
        elif picture.shape != self._shape:
            raise LiveError(
                f"{self._path}: a picture of shape {picture.shape} follows one of {self._shape}"
            )
        with self._writing():
            frame = self._av.VideoFrame.from_ndarray(large, format="rgb24")
            self._container.mux(self._stream.encode(frame))

    def _open_stream(self, container: "OutputContainer", picture: Picture) -> "VideoStream":
        stream = container.add_stream("libx264", rate=self._rate)
        stream.height, stream.width = picture.shape[:2]
        stream.pix_fmt = "yuv420p"
        # With mbtree, what x264 writes depends on memory it never set where a side is no
        # multiple of 16, and it notes its number of threads: neither repeats to the byte.
        stream.options = {"crf": "21", "preset": "medium", "bf": "0", "x264-params": "mbtree=0"}
        context = stream.codec_context
        context.thread_count = 1
        context.colorspace = 6  # SMPTE 170M, what the conversion from RGB does unless told
        context.color_range = 1  # 16 to 235
        return stream

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Finish the file and give it its name, or remove what there is of it."""
        container, self._container = self._container, None
        assert container is not None  # noqa: S101 - __enter__ made it
        try:
            if kind is not None:
                # The first error is the one to show.
                with contextlib.suppress(OSError, self._av.FFmpegError):
                    container.close()
                return
            if self._stream is None:
                container.close()
                raise LiveError(f"{self._path}: a video needs at least one picture")
            with self._writing():
                container.mux(self._stream.encode(None))
                container.close()
                self._temporary.replace(self._path)
        finally:
            self._temporary.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except (OSError, self._av.FFmpegError) as error:
            reason = error.strerror or type(error).__name__
            raise LiveError(f"{self._path}: cannot be written: {reason}") from error


def _enlarge(picture: Picture) -> Picture:
    """Repeat pixels up to the least width, then the last row and column to even numbers."""
    factor = max(1, math.ceil(_LEAST_WIDTH / picture.shape[1]))
    large = picture.repeat(factor, axis=0).repeat(factor, axis=1)
    odd = (large.shape[0] % 2, large.shape[1] % 2)
    if any(odd):
        large = np.pad(large, ((0, odd[0]), (0, odd[1]), (0, 0)), mode="edge")
    return np.ascontiguousarray(large)


def record_video(
    network: nn.Module,
    settings: Settings,
    path: Path | str,
    *,
    seed: int,
    greedy: bool = False,
    max_steps: int = MAX_STEPS,
) -> Evaluation:
    """Play an episode and write it to an .mp4 file: a picture at its start and after each step.

    It is the first episode that `evaluate` plays from the same seed.

    Raises:
        DivergedError: the policy is not finite.
        LiveError: the file cannot be written, or the game not be played or shown.
    """
    with VideoWriter(path, fps=frames_per_s(settings.game)) as video:
        [evaluation] = evaluate(
            network,
            settings,
            seed=seed,
            greedy=greedy,
            max_steps=max_steps,
            on_frame=video.write,
        )
    return evaluation


def frames_per_s(game: str) -> float:
    """Return how many agent steps of a game make a second; Atari's rate where it is not said.

    Raises:
        LiveError: no such game.
    """
    game = canonical_game(game)
    if is_atari(game):
        return FRAMES_PER_S
    return float(metadata(game).get("render_fps") or FRAMES_PER_S)
