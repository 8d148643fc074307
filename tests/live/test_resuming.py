"""Taking up a search: its folder says how, and what differs is refused."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("psutil")

from simsched.live.errors import LiveError
from simsched.live.nodes import Node
from simsched.live.planning import Asked, plan_search
from simsched.live.resuming import recorded_settings, require_same
from simsched.live.settings import LiveSettings
from simsched.space import Integer, Real, SearchSpace

CORES = [Node(number=n, name=f"core {n}", cores=(n,)) for n in range(2)]
SPACE = SearchSpace({"lr": Real(1e-4, 1.0, log=True), "units": Integer(8, 64, q=8)})
COMMAND = "sh train.sh --lr {lr} {units}"


def of_command(**asked: Any) -> LiveSettings:
    return plan_search(Asked(command=COMMAND, space=SPACE, **asked), CORES).settings


def run_folder(folder: Path, **asked: Any) -> tuple[Path, LiveSettings]:
    settings = of_command(**asked)
    (folder / "settings.json").write_bytes(msgspec.json.encode(settings))
    return folder, settings


def test_settings_come_from_the_folder(tmp_path: Path) -> None:
    folder, settings = run_folder(tmp_path, workers=5, max_time_s=60.0)
    assert recorded_settings(folder) == settings
    same = Asked(command=COMMAND, space=SPACE, workers=5, max_time_s=60.0, first="none",
                 scheduler=" hypertrick", mode="max", nodes=2)  # fmt: skip
    require_same(settings, same, folder)
    require_same(settings, Asked(), folder)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"workers": 6}, "--workers is 16 there and 6 here"),
        ({"scheduler": "asha"}, "--scheduler is hypertrick there and asha here"),
        ({"command": "sh x"}, f"--command is {COMMAND} there and sh x here"),
        ({"max_time_s": 5.0}, "--max-time is not given there and 5 s here"),
        ({"cores_per_node": 1}, "--cores-per-node is not given there and 1 here"),
        ({"space": SearchSpace({"lr": Real(0.1, 1)})}, "--search-space is {'lr'"),
        ({"complete": True}, "--complete is False there and True here"),
    ],
)
def test_what_differs_is_refused(asked: dict[str, Any], said: str, tmp_path: Path) -> None:
    folder, settings = run_folder(tmp_path)
    with pytest.raises(LiveError) as caught:
        require_same(settings, Asked(**asked), folder)
    assert str(caught.value).startswith(f"--resume {folder}: {said}")
    assert str(caught.value).endswith("keeps its settings, leave them out")


def test_other_code_is_refused(tmp_path: Path) -> None:
    folder, settings = run_folder(tmp_path)
    for field, said in (("version", "simsched 0.0.1 began it"), ("code", "the code that dec")):
        other = msgspec.structs.replace(settings, **{field: "0.0.1"})
        (folder / "settings.json").write_bytes(msgspec.json.encode(other))
        with pytest.raises(LiveError, match=said):
            recorded_settings(folder)


def test_no_such_run(tmp_path: Path) -> None:
    for folder in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(LiveError, match="not the folder of a live search"):
            recorded_settings(folder)
    (tmp_path / "settings.json").write_text('{"version": 3}')
    with pytest.raises(LiveError, match=r"settings\.json: not the settings of a live search"):
        recorded_settings(tmp_path)
