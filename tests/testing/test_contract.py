"""Every scheduler that is built in keeps the contract, with its defaults and without."""

from simsched.testing.contract import SchedulerContract


class TestSuccessiveHalving(SchedulerContract):
    scheduler = "successive-halving"


class TestSuccessiveHalvingOfThree(SchedulerContract):
    scheduler = "successive-halving:eta=3,base=2"


class TestHyperBand(SchedulerContract):
    scheduler = "hyperband"


class TestHyperBandOfThree(SchedulerContract):
    scheduler = "hyperband:eta=3"


class TestHyperTrick(SchedulerContract):
    scheduler = "hypertrick"


class TestHyperTrickThatEvictsMore(SchedulerContract):
    scheduler = "hypertrick:eviction_rate=0.5"


class TestPbt(SchedulerContract):
    scheduler = "pbt"


class TestPbtThatCopiesMore(SchedulerContract):
    scheduler = "pbt:quantile=0.5,interval=2"


class TestAsha(SchedulerContract):
    scheduler = "asha"


class TestAshaOfThree(SchedulerContract):
    scheduler = "asha:eta=3"


class TestAshaStop(SchedulerContract):
    scheduler = "asha-stop:eta=3"


class TestMedianStopping(SchedulerContract):
    scheduler = "median-stopping"


class TestRandom(SchedulerContract):
    scheduler = "random"
