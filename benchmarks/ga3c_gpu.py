"""GA3C on a GPU beside A3C on the processor's cores, for the five networks of the paper.

    python benchmarks/ga3c_gpu.py                     all of it, on a machine with a GPU
    python benchmarks/ga3c_gpu.py --device cpu --seconds 5 --networks small --workers 1
                                                      the script itself, tried without one

Prints a Markdown table: predictions (PPS) and samples trained (TPS) per second, use of GPU and
processor, the ratio and the one the paper published (ICLR 2017: 4, 11, 12, 20, 45);
then agent steps per second of 1, 2, 4 and 6 workers that share the GPU. Each line is written
to --out as soon as it is measured.
"""

import argparse
import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from simsched.live.machine import available_cores, processor

MEASURE = Path(__file__).with_name("ga3c.py")
NETWORKS: dict[str, tuple[dict[str, Any], int]] = {
    "small": ({"network": "small"}, 4),
    "large, stride 4": ({"network": "large", "stride": 4}, 11),
    "large, stride 3": ({"network": "large", "stride": 3}, 12),
    "large, stride 2": ({"network": "large", "stride": 2}, 20),
    "large, stride 1": ({"network": "large", "stride": 1}, 45),
}
"""Settings of each network, and how many times A3C's PPS the paper's GA3C made with it."""


class GpuUse:
    """Samples how busy the first GPU is while something runs; None without nvidia-smi."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._samples: list[float] = []
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def _sample(self) -> None:
        query = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
        while not self._done.wait(0.5):
            said = subprocess.run(query, capture_output=True, text=True, check=False).stdout
            self._samples += [float(line) for line in said.split()[:1]]

    def __enter__(self) -> "GpuUse":
        if shutil.which("nvidia-smi"):
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def percent(self) -> float | None:
        """The mean of the second half: what came before was warming up."""
        half = self._samples[len(self._samples) // 2 :]
        return statistics.fmean(half) if half else None


def start(args: argparse.Namespace, **settings: Any) -> subprocess.Popen[str]:
    """Start a measurement in a process of its own."""
    pairs = [f"{name}={value}" for name, value in {"game": args.game, **settings}.items()]
    times = ["--warmup", str(args.warmup), "--seconds", str(args.seconds)]
    command = [sys.executable, str(MEASURE), "--measure", *pairs, *times]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def result(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for a measurement and return it."""
    out, said = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"error: a measurement failed: {said.strip().splitlines()[-1]}")
    found: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
    return found


def compare(args: argparse.Namespace, say: Any) -> None:
    """Measure GA3C and A3C with each network."""
    cores = len(available_cores())
    say("| network | GA3C PPS | TPS | GPU % | cores | A3C PPS | TPS | ratio of PPS | published |")
    say("|---|---|---|---|---|---|---|---|---|")
    for name in args.networks:
        settings, published = NETWORKS[name]
        with GpuUse() as gpu:
            ours = result(start(args, preset="fast", device=args.device, **args.parts, **settings))
        theirs = result(start(args, algorithm="a3c", agents=cores, **settings))
        percent = "-" if gpu.percent is None else f"{gpu.percent:.0f}"
        ratio = ours["speed/PPS"] / theirs["speed/PPS"]
        say(
            f"| {name} | {ours['speed/PPS']:,.0f} | {ours['speed/TPS']:,.0f} | {percent} "
            f"| {sum(ours['cores'].values()):.1f} | {theirs['speed/PPS']:,.0f} "
            f"| {theirs['speed/TPS']:,.0f} | {ratio:.1f} | {published} |"
        )


def share(args: argparse.Namespace, say: Any) -> None:
    """Measure several workers that share the device."""
    say("")
    say("| workers | steps/s each | steps/s together | GPU % |")
    say("|---|---|---|---|")
    for count in args.workers:
        with GpuUse() as gpu:
            started = [
                start(args, preset="fast", device=args.device, seed=k, **args.parts)
                for k in range(count)
            ]
            rates = [result(process)["speed/steps_per_s"] for process in started]
        percent = "-" if gpu.percent is None else f"{gpu.percent:.0f}"
        each = ", ".join(f"{rate:,.0f}" for rate in rates)
        say(f"| {count} | {each} | {sum(rates):,.0f} | {percent} |")


def main() -> None:
    """Parse the options and measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--game", default="Pong")
    parser.add_argument("--networks", nargs="*", default=list(NETWORKS), choices=NETWORKS)
    parser.add_argument("--workers", nargs="*", type=int, default=[1, 2, 4, 6])
    parser.add_argument("--agents", type=int, default=128, help="of GA3C")
    parser.add_argument("--groups", type=int, default=4, help="of GA3C")
    parser.add_argument("--warmup", type=float, default=30.0)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--out", type=Path, help="append the tables to a file")
    args = parser.parse_args()
    args.parts = {"agents": args.agents, "groups": args.groups}

    def say(line: str) -> None:
        print(line, flush=True)
        if args.out:
            with args.out.open("a") as file:
                file.write(line + "\n")

    import torch

    on_gpu = args.device.startswith("cuda") and torch.cuda.is_available()
    device = torch.cuda.get_device_name() if on_gpu else "no GPU"
    today = datetime.datetime.now(datetime.UTC).date()
    say(f"{today}, {device}, {processor()} ({len(os.sched_getaffinity(0))} usable), {args.game}\n")
    compare(args, say)
    share(args, say)


if __name__ == "__main__":
    main()
