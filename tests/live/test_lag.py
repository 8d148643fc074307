"""What a worker in one thread trains on: bootstraps, whole rollouts, and a bounded policy lag."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from small_workers import settings, train_and_close  # noqa: E402

from simsched.live.ga3c.agents import Segment  # noqa: E402
from simsched.live.ga3c.batches import Batcher, Sample  # noqa: E402
from simsched.live.ga3c.trainer import Trainer, Update  # noqa: E402
from simsched.live.ga3c.worker import Worker  # noqa: E402

pytestmark = pytest.mark.torch


class Spy:
    """Keeps what becomes experience, what is trained on, and what the network said of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.updates: list[Update] = []
        self.batches: list[list[Sample] | list[Segment]] = []
        self.segments: list[Segment] = []
        self.values_after: list[float] = []
        """Of what follows each segment, by the network at the moment when the segment is in."""
        self.network: Any = None
        add, update = Batcher.add, Trainer.update

        def spied_add(batcher: Batcher, segments: list[Segment]) -> None:
            self.segments += segments
            self.values_after += [self._value(segment) for segment in segments]
            add(batcher, segments)

        def spied_update(
            trainer: Trainer, batch: list[Sample] | list[Segment], steps: int
        ) -> Update:
            self.batches.append(batch)
            self.updates.append(update(trainer, batch, steps))
            return self.updates[-1]

        monkeypatch.setattr(Batcher, "add", spied_add)
        monkeypatch.setattr(Trainer, "update", spied_update)

    def _value(self, segment: Segment) -> float:
        if segment.following is None:
            return 0.0
        with torch.no_grad():
            return float(self.network(torch.from_numpy(segment.following[None]))[1][0])


@pytest.mark.parametrize("game", ["CartPole-v1", "MountainCar-v0"])
@pytest.mark.parametrize("algorithm", ["a2c", "ga3c"])
def test_bootstraps_are_values_by_the_weights_that_acted_last(
    game: str, algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CartPole falls over, that is a true end; MountainCar runs into its time limit."""
    spy = Spy(monkeypatch)
    worker = Worker(settings(game=game, algorithm=algorithm, agents=4, least_batch=0, t_max=7))
    spy.network = worker.network
    train_and_close(worker, 4 * 410)
    bootstraps = [segment.bootstrap for segment in spy.segments]
    assert bootstraps == pytest.approx(spy.values_after, rel=1e-4, abs=1e-5)
    true_ends = sum(segment.following is None for segment in spy.segments)
    assert (true_ends > 20) == (game == "CartPole-v1")
    assert len({round(value, 3) for value in bootstraps}) > 20
    if game == "MountainCar-v0":  # both limits cut short what would have been 7 steps long
        assert sum(len(segment) < 7 for segment in spy.segments) >= 8


def test_a2c_has_no_lag_and_updates_of_agents_times_t_max(monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(monkeypatch)
    worker = Worker(settings(algorithm="a2c", agents=6, t_max=9, groups=1, least_batch=0))
    spy.network = worker.network
    train_and_close(worker, 6 * 9 * 30 + 6)
    assert [update.samples for update in spy.updates] == [54] * 30
    assert worker.updates == 30
    assert worker.monitor.greatest_lag() == 0
    assert {update.lag for update in spy.updates} == {0.0}
    trained = [sample for batch in spy.batches for sample in batch if isinstance(sample, Sample)]
    assert [sample.version for sample in trained] == sorted(sample.version for sample in trained)
    held = [o.tobytes() for segment in spy.segments for o in segment.observations]
    assert [sample.observation.tobytes() for sample in trained] == held  # none lost, none doubled


def test_a2c_takes_up_a_new_t_max_with_the_next_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    spy = Spy(monkeypatch)
    worker = Worker(settings(algorithm="a2c", agents=2, t_max=4, least_batch=0))
    spy.network = worker.network
    for _ in range(6):
        worker.advance()
    worker.change(t_max=7)  # two steps into the second rollout
    train_and_close(worker, 2 * 20)
    assert [update.samples for update in spy.updates] == [8, 8, 14]


@pytest.mark.parametrize(
    ("agents", "t_max", "least"), [(16, 5, 80), (4, 20, 16), (3, 7, 0), (8, 2, 50), (1, 5, 0)]
)
def test_the_lag_by_turns_is_bounded(
    agents: int, t_max: int, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is trained between acting and training has been acted out by then.

    When a step is taken, its own segment lives for t_max steps more at most, and every agent's
    open segment is at most t_max steps old: (2 t_max + 1) steps of each agent, in batches of
    `least`, or at the worst one by one where each segment is an update; and one update more,
    that of the samples that were left over.
    """
    spy = Spy(monkeypatch)
    worker = Worker(settings(agents=agents, t_max=t_max, least_batch=least))
    spy.network = worker.network
    train_and_close(worker, 4_000 if least else 1_500)
    bound = agents * (2 * t_max + 1) // max(1, least) + 1
    greatest = worker.monitor.greatest_lag()
    assert 0 < greatest <= bound
    assert greatest == max(update.greatest_lag for update in spy.updates)
    assert worker.monitor.greatest_lag() == 0  # since the last call
    # Naively: each update's place in the row, less the version that each of its samples saw.
    for now, batch in enumerate(spy.batches):
        versions = [sample.version for sample in batch if isinstance(sample, Sample)]
        assert spy.updates[now].greatest_lag == now - min(versions)
        assert spy.updates[now].lag == pytest.approx(now - np.mean(versions))


@pytest.mark.parametrize("changes", [{"algorithm": "a2c"}, {"vtrace": True}])
def test_one_agent_without_lag_gives_the_update_of_ga3c(changes: dict[str, Any]) -> None:
    def first_update(**more: Any) -> Any:
        worker = Worker(
            settings(agents=1, groups=1, least_batch=0, t_max=6, learning_rate=0.01, **more)
        )
        while not worker.updates:
            worker.advance()
        worker.close()
        return torch.cat([p.detach().flatten() for p in worker.network.parameters()])

    torch.testing.assert_close(first_update(**changes), first_update(), rtol=1e-5, atol=1e-7)
