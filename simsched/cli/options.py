"""Option types that several commands share. Each says what would have been right."""

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click import ParamType
else:

    class ParamType(click.ParamType):
        """Click's own, with the type arguments that it takes only from 8.5 on."""

        def __class_getitem__(cls, _: Any) -> type:
            return cls


LONGEST_QUOTE = 40


class _Bounded:
    """Whole numbers from `low` to `high`."""

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high

    def read(self, text: str) -> int | None:
        """Return the number in a text; None where there is none within the bounds."""
        try:
            number = int(text)
        except ValueError:
            return None
        return number if self.low <= number <= self.high else None

    @property
    def rule(self) -> str:
        """What a number must be, in words."""
        return f"a whole number from {self.low:,} to {self.high:,}"


class Whole(_Bounded, ParamType[int, str]):
    """A whole number within bounds."""

    name = "N"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return the number."""
        number = self.read(str(value))
        if number is None:
            self.fail(f"{quoted(value)} must be {self.rule}", param, ctx)
        return number


class WholeList(_Bounded, ParamType[tuple[int, ...], str]):
    """Different whole numbers within bounds, separated by commas: 2,4,8."""

    name = "N[,N…]"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Return the numbers, in the order given."""
        if isinstance(value, tuple):
            return value
        parts = str(value).split(",")
        numbers = tuple(number for part in parts if (number := self.read(part)) is not None)
        if len(numbers) < len(parts):
            self.fail(
                f"{quoted(value)} must be {self.rule}, or several separated by commas: 2,4,8",
                param,
                ctx,
            )
        if len(set(numbers)) < len(numbers):
            twice = next(number for number in numbers if numbers.count(number) > 1)
            self.fail(f"{quoted(value)} has {twice} more than once", param, ctx)
        return numbers


class SpeedList(ParamType[tuple[float, ...], str]):
    """Speed factors, separated by commas: 1,1,0.5."""

    name = "F[,F…]"
    low, high = 1e-3, 1e3

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        """Return the speed factors, in the order given."""
        if isinstance(value, tuple):
            return value
        speeds = [_number(part) for part in str(value).split(",")]
        if not all(speed is not None and self.low <= speed <= self.high for speed in speeds):
            self.fail(
                f"{quoted(value)} must be numbers from {self.low:g} to {self.high:g}, "
                "separated by commas: 1,1,0.5",
                param,
                ctx,
            )
        return tuple(speed for speed in speeds if speed is not None)


class Seconds(ParamType[float, str]):
    """A cost in seconds: 0 or more."""

    name = "SECONDS"
    high = 1e9

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number of seconds."""
        seconds = _number(str(value))
        if seconds is None or not 0 <= seconds <= self.high:
            self.fail(
                f"{quoted(value)} must be a number of seconds from 0 to {self.high:,.0f}",
                param,
                ctx,
            )
        return seconds


class Text(ParamType[str, str]):
    """A name that is not empty."""

    def __init__(self, name: str) -> None:
        self.name = name

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Return the text."""
        text = str(value)
        if not text.strip():
            self.fail(f"{quoted(value)} must not be empty", param, ctx)
        return text


def quoted(value: object) -> str:
    """Return a value as an error message quotes it: short."""
    text = repr(str(value))
    return text if len(text) <= LONGEST_QUOTE else f"{text[: LONGEST_QUOTE - 1]}…"


def _number(text: str) -> float | None:
    """Return the number in a text; NaN passes no comparison with a bound."""
    try:
        return float(text)
    except ValueError:
        return None
