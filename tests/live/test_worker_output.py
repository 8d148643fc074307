"""What workers print, cut into lines."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worker_programs import PATIENCE_S, Heard, launch, until

from simsched.live import worker_output
from simsched.live.worker_output import CUT, LONGEST_LINE, Lines


def lines_of(*chunks: bytes) -> list[str]:
    heard: list[str] = []
    lines = Lines(heard.append)
    for chunk in chunks:
        lines.feed(chunk)
    lines.close()
    return heard


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([b"a\nb\n"], ["a", "b"]),
        ([b"a", b"b\n", b"", b"\n\n"], ["ab", "", ""]),
        ([b"no end"], ["no end"]),
        ([b""], []),
        ([b"windows\r\n", b"split\r", b"\nx"], ["windows", "split", "x"]),
        ([b"  1%\r", b" 50%\r", b"100%\r", b"\n"], ["100%"]),
        ([b"  1%\r 50%"], [" 50%"]),
        ([b"caf\xe9 \xff\xfe\n"], ["caf\ufffd \ufffd\ufffd"]),
        (["é€".encode()[:1], "é€".encode()[1:4], "é€".encode()[4:]], ["é€"]),
        ([b"\x00\x1b[31m\n"], ["\x00\x1b[31m"]),
    ],
)
def test_lines(chunks: list[bytes], lines: list[str]) -> None:
    assert lines_of(*chunks) == lines


@pytest.mark.parametrize("chunk", [1000, 65_536, 10**6])
def test_long_lines_are_cut_with_a_note(chunk: int) -> None:
    data = (
        b"x" * LONGEST_LINE + b"\n" + b"y" * (LONGEST_LINE + 1) + b"\n" + b"z" * 10**6 + b"\nend\n"
    )
    heard = lines_of(*(data[k : k + chunk] for k in range(0, len(data), chunk)))
    assert heard == ["x" * LONGEST_LINE, "y" * LONGEST_LINE + CUT, "z" * LONGEST_LINE + CUT, "end"]


def naive_lines(text: bytes, longest: int) -> list[str]:
    """All of the output at once: what stands on a terminal's lines, cut."""
    *lines, rest = text.split(b"\n")
    shown = [
        line.removesuffix(b"\r").rpartition(b"\r")[2]
        for line in [*lines, *([rest] if rest else [])]
    ]
    return [
        each[:longest].decode(errors="replace") + (CUT if len(each) > longest else "")
        for each in shown
    ]


@given(
    st.lists(st.sampled_from([b"ab", b"\n", b"\r", b"\r\n", b"\xc3", b"\xa9", b"zzz"])),
    st.lists(st.integers(0, 60), max_size=8),
)
def test_where_the_chunks_end_does_not_matter(parts: list[bytes], places: list[int]) -> None:
    text = b"".join(parts)
    cuts = sorted(min(len(text), place) for place in places)
    chunks = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker_output, "LONGEST_LINE", 5)
        assert lines_of(*chunks) == naive_lines(text, 5)


@pytest.mark.parametrize("size", [1, 7, 40_000, 90_000])
def test_a_line_too_long_can_be_overwritten_too(size: int) -> None:
    text = b"z" * 80_000 + b"\rab\n" + b"y" * LONGEST_LINE + b"\r\n" + b"x" * 80_000 + b"\r"
    heard = lines_of(*(text[k : k + size] for k in range(0, len(text), size)))
    assert heard == ["ab", "y" * LONGEST_LINE, "x" * LONGEST_LINE + CUT]


def test_both_outputs_of_a_process_and_bytes_that_are_no_text() -> None:
    heard = Heard()

    async def run() -> None:
        process = launch(
            "import os\n"
            r"os.write(1, b'to one\n'); os.write(2, b'to two \xff\n'); os.write(1, b'z' * 70000)",
            heard,
        )
        await process.leave(PATIENCE_S)

    asyncio.run(run())
    assert heard.lines == ["to one", "to two \ufffd", "z" * LONGEST_LINE + CUT]


def test_the_output_of_children_is_heard_until_the_end() -> None:
    """After the worker's exit a child goes on to print, and to fill the pipe as it is killed."""
    heard = Heard()

    async def run() -> None:
        process = launch(
            "import os, time\n"
            "if os.fork(): os._exit(0)\n"
            "for k in range(10**9): os.write(1, b'%d\\n' % k)",
            heard,
        )
        await process.wait()
        await until(lambda: len(heard.lines) > 1000)
        await process.end(5)

    asyncio.run(run())
    assert heard.lines[:-1] == [str(k) for k in range(len(heard.lines) - 1)]
    assert heard.exits == [0]
