"""The contract suite: what any scheduler must keep, built in or your own, as pytest tests.

    import mine  # registers the scheduler "mine"
    from simsched.testing.contract import SchedulerContract

    class TestMine(SchedulerContract):
        scheduler = "mine:eta=3"

`pytest` then runs every check on it. Needs pytest and Hypothesis, which simsched itself
does not: `pip install simsched[testing]`.
"""

from pathlib import Path
from typing import ClassVar

try:
    import pytest

    from simsched.testing.contract_machine import check_any_sequence
except ModuleNotFoundError as missing:
    if missing.name not in ("pytest", "hypothesis"):
        raise
    raise ImportError(
        f"simsched.testing.contract needs {missing.name}: pip install 'simsched[testing]'"
    ) from None

from simsched.errors import SimschedError
from simsched.schedulers import parse
from simsched.testing import contract_checks as checks
from simsched.testing.contract_simulated import check_simulation

__all__ = ["SchedulerContract"]


class SchedulerContract:
    """Tests of the scheduler that a subclass names; see the module."""

    scheduler: ClassVar[str]
    """As on the command line: name and parameters, e.g. "asha:eta=3,base=2"."""
    starts_all: ClassVar[bool] = True
    """Whether every trial is started before all is done."""
    examples: ClassVar[int] = 20
    """Sequences of events that Hypothesis tries."""

    def test_its_class_declares_what_the_registry_shows(self) -> None:
        """It has name, summary, checkpoint need, and defaults that are allowed themselves."""
        made, _ = parse(self.scheduler)
        assert made.name == self.scheduler.partition(":")[0]  # noqa: S101
        assert made.summary  # noqa: S101
        assert made.checkpoints in ("never", "pause", "milestone")  # noqa: S101
        for parameter in made.parameters:
            assert parameter.doc  # noqa: S101
            parameter.parse(made.name, parameter.default)

    @pytest.mark.parametrize("scores", checks.SCORES)
    def test_it_keeps_the_protocol(self, scores: str) -> None:
        """Answers are legal, runs end: one trial, one node, more nodes than trials, one phase."""
        for trials, nodes in checks.SIZES:
            checks.check_runs(self.scheduler, trials, nodes, scores, starts_all=self.starts_all)

    def test_it_ends_whatever_the_order(self) -> None:
        """Reports in random order, trials lost, the scheduler made anew from snapshots."""
        for seed in range(60):
            checks.check_orders(self.scheduler, seed, starts_all=self.starts_all)

    def test_any_sequence_of_events(self) -> None:
        """Hypothesis looks for a sequence that breaks the protocol, and makes it short."""
        check_any_sequence(self.scheduler, self.examples, starts_all=self.starts_all)

    def test_a_searcher_may_run_out(self) -> None:
        """Fewer configurations than trials."""
        checks.check_searcher_runs_out(self.scheduler, starts_all=self.starts_all)

    def test_any_report_may_be_a_divergence(self) -> None:
        """Each report of a run in turn."""
        checks.check_divergence_at_every_report(self.scheduler, starts_all=self.starts_all)

    def test_told_the_same_it_answers_the_same(self) -> None:
        """Also beside another one at work, and with other global random generators."""
        checks.check_same_answers_again(self.scheduler, starts_all=self.starts_all)

    def test_a_snapshot_holds_all_at_every_moment(self) -> None:
        """JSON values only; whoever takes it up answers on as the first one did."""
        checks.check_snapshot_at_every_moment(self.scheduler, starts_all=self.starts_all)

    def test_any_trial_may_be_lost_at_every_moment(self) -> None:
        """Running or paused, one or all of them."""
        checks.check_abandonment_at_every_moment(self.scheduler, starts_all=self.starts_all)

    @pytest.mark.parametrize("nodes", [1, 3, 20])
    def test_a_simulation_balances_and_its_journal_repeats(
        self, nodes: int, tmp_path: Path
    ) -> None:
        """Under the real coordinator, with costs, on curves of every kind."""
        try:
            check_simulation(self.scheduler, nodes, tmp_path)
        except SimschedError as error:
            pytest.fail(str(error))
