"""Option types that several commands share."""

import click


class IntegerList(click.ParamType[tuple[int, ...], str]):
    """Whole numbers of at least 1, separated by commas: 2,4,8."""

    name = "N[,N…]"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Return the numbers, in the order given."""
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(int(part) for part in str(value).split(","))
        except ValueError:
            numbers = ()
        if not numbers or min(numbers) < 1 or len(set(numbers)) < len(numbers):
            self.fail(
                f"{value!r} must be a whole number of at least 1, or several different ones: 2,4,8",
                param,
                ctx,
            )
        return numbers


class SpeedList(click.ParamType[tuple[float, ...], str]):
    """Numbers above 0, separated by commas: 1,1,0.5."""

    name = "F[,F…]"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        """Return the speed factors, in the order given."""
        if isinstance(value, tuple):
            return value
        try:
            speeds = tuple(float(part) for part in str(value).split(","))
        except ValueError:
            speeds = ()
        if not speeds or not all(0 < speed < float("inf") for speed in speeds):
            self.fail(
                f"{value!r} must be numbers above 0, separated by commas: 1,1,0.5", param, ctx
            )
        return speeds


SECONDS = click.FloatRange(min=0, max=1e9)
"""A cost in seconds."""
