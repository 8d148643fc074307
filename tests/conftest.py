"""What holds for all tests: Hypothesis judges the code, not the machine or what it drew."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "simsched",
    deadline=None,
    # Whether it draws fast, small and without misses is luck on a busy machine.
    suppress_health_check=[
        HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much,
    ],
    print_blob=True,
)  # fmt: skip
settings.load_profile("simsched")
