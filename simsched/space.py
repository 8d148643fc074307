"""Search spaces: what hyperparameters there are, and how they are drawn and changed.

    {"learning_rate": Real(1e-5, 1e-2, log=True),
     "t_max": Integer(2, 100, log=True),
     "gamma": Categorical((0.9, 0.99, 0.999))}

A space is a value: it holds no generator, and is written to JSON and read back.
"""

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import msgspec
import numpy as np

from simsched.errors import SimschedError, nearest
from simsched.messages import Hparams, HparamValue


class Real(msgspec.Struct, frozen=True, tag="real"):
    """A real number in [low, high]; `log` draws uniformly in its logarithm, `q` rounds to steps."""

    low: float
    high: float
    log: bool = False
    q: float | None = None


class Integer(msgspec.Struct, frozen=True, tag="integer"):
    """A whole number in [low, high], in steps of `q`; `log` draws uniformly in its logarithm."""

    low: int
    high: int
    log: bool = False
    q: int = 1


class Categorical(msgspec.Struct, frozen=True, tag="categorical"):
    """One of `choices`, each as likely. Numbers are taken to be ordered when perturbed."""

    choices: tuple[HparamValue, ...]


Parameter: TypeAlias = Real | Integer | Categorical


class SearchSpace(msgspec.Struct, frozen=True):
    """Named parameters, in an order that is part of the space."""

    parameters: dict[str, Parameter]

    def __post_init__(self) -> None:
        """Refuse a space that cannot be drawn from. Raises SimschedError."""
        for name, parameter in self.parameters.items():
            _check(name, parameter)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "SearchSpace":
        """Read {"lr": {"type": "real", "low": …, "high": …, "log": true}, …}.

        Raises:
            SimschedError: an unknown type or key, or bounds that make no sense.
        """
        kinds: dict[str, type[Parameter]] = {
            "real": Real, "integer": Integer, "categorical": Categorical,
        }  # fmt: skip
        parameters: dict[str, Parameter] = {}
        for name, fields in data.items():
            kind = fields.get("type") if isinstance(fields, Mapping) else None
            if not isinstance(kind, str) or kind not in kinds:
                raise SimschedError(
                    f"search space: {name}: type {kind!r} is not one of {', '.join(kinds)}"
                    + nearest(str(kind), list(kinds))
                )
            known = kinds[kind].__struct_fields__
            rest = {key: value for key, value in fields.items() if key != "type"}
            for key in rest:
                if key not in known:
                    raise SimschedError(
                        f"search space: {name}: unknown key {key!r}; a {kind} parameter has "
                        f"{', '.join(known)}{nearest(key, list(known))}"
                    )
            try:
                parameters[name] = msgspec.convert(rest, kinds[kind])
            except msgspec.ValidationError as error:
                raise SimschedError(f"search space: {name}: {error}") from None
        return SearchSpace(parameters)

    def to_json(self) -> dict[str, dict[str, Any]]:
        """Return what `from_json` reads."""
        out: dict[str, dict[str, Any]] = {}
        for name, parameter in self.parameters.items():
            fields: dict[str, Any] = msgspec.to_builtins(parameter)
            if fields.get("q", 0) is None:
                del fields["q"]
            out[name] = fields
        return out

    def sample(self, rng: np.random.Generator) -> Hparams:
        """Draw a configuration; parameters are drawn in the space's order."""
        return {name: draw(parameter, rng) for name, parameter in self.parameters.items()}

    def perturb(
        self, hparams: Hparams, rng: np.random.Generator, factor: float, resample_probability: float
    ) -> Hparams:
        """Explore as PBT does (Jaderberg et al. 2017, arXiv 1711.09846, section 3.2).

        Each parameter is drawn anew with `resample_probability`, else multiplied or divided
        by `factor` (as likely) and kept in its bounds; one that is counted in steps moves by
        at least one; an ordered choice moves to a neighbour, an unordered one is drawn anew.
        """
        out = dict(hparams)
        for name, parameter in self.parameters.items():
            if rng.random() < resample_probability:
                out[name] = draw(parameter, rng)
            else:
                out[name] = _shift(parameter, hparams[name], factor, up=rng.random() < 0.5, rng=rng)
        return out

    def encode(self, hparams: Hparams) -> list[float]:
        """Return the point in the unit cube: logarithmic where the parameter is, for distances.

        A numeric choice goes by its place in the order; others take one dimension a choice,
        of which two choices are 1 apart.
        """
        point: list[float] = []
        for name, parameter in self.parameters.items():
            point.extend(_encode(parameter, hparams[name]))
        return point

    def grid(self, points: int) -> Iterator[Hparams]:
        """Yield the full grid: `points` values for each number (fewer if it has fewer)."""
        axes = [_axis(parameter, points) for parameter in self.parameters.values()]
        for values in itertools.product(*axes):
            yield dict(zip(self.parameters, values, strict=True))


def _check(name: str, parameter: Parameter) -> None:
    where = f"search space: {name}: "
    if isinstance(parameter, Categorical):
        if not parameter.choices:
            raise SimschedError(where + "choices is empty; give at least one")
        if len({(type(c), c) for c in parameter.choices}) < len(parameter.choices):
            raise SimschedError(where + f"choices {list(parameter.choices)} has a value twice")
        return
    low, high = parameter.low, parameter.high
    largest = 2**53 if isinstance(parameter, Integer) else 1e300
    if not (-largest <= low <= high <= largest):
        raise SimschedError(
            where + f"low {low} must be a number not above high {high}, both within {largest:g}"
        )
    if parameter.log and low <= 0:
        raise SimschedError(where + f"low {low} must be above 0 for a logarithmic parameter")
    if parameter.q is not None and (parameter.q <= 0 or (low < high and parameter.q > high - low)):
        raise SimschedError(where + f"q {parameter.q} must be above 0 and at most high - low")


def draw(parameter: Parameter, rng: np.random.Generator) -> HparamValue:
    """Draw one value."""
    if isinstance(parameter, Categorical):
        return parameter.choices[int(rng.integers(len(parameter.choices)))]
    if parameter.log:
        value = math.exp(rng.uniform(math.log(parameter.low), math.log(parameter.high)))
    elif isinstance(parameter, Integer):
        steps = (parameter.high - parameter.low) // parameter.q
        return parameter.low + int(rng.integers(steps + 1)) * parameter.q
    else:
        value = rng.uniform(parameter.low, parameter.high)
    return _fit(parameter, value)


def _fit(parameter: Real | Integer, value: float) -> float | int:
    """Round to the parameter's steps, counted from its lower bound, and keep within bounds."""
    if isinstance(parameter, Integer):
        most = (parameter.high - parameter.low) // parameter.q
        steps = round((value - parameter.low) / parameter.q)
        return parameter.low + min(max(steps, 0), most) * parameter.q
    if parameter.q is not None:
        # Back through the decimal text: 3 × 0.1 should read 0.3.
        steps = round((value - parameter.low) / parameter.q)
        value = float(f"{parameter.low + steps * parameter.q:.12g}")
    return min(max(float(value), parameter.low), parameter.high)


def _shift(
    parameter: Parameter, value: HparamValue, factor: float, *, up: bool, rng: np.random.Generator
) -> HparamValue:
    if isinstance(parameter, Categorical):
        ranked = _ranked(parameter.choices)
        if not ranked or value not in ranked:
            return draw(parameter, rng)
        place = ranked.index(value) + (1 if up else -1)
        return ranked[min(max(place, 0), len(ranked) - 1)]
    number = float(value)
    moved = _fit(parameter, number * factor if up else number / factor)
    if parameter.q is not None and moved == value:
        moved = _fit(parameter, number + (parameter.q if up else -parameter.q))
    return moved


def _ranked(choices: tuple[HparamValue, ...]) -> tuple[float | int, ...]:
    """Return the choices in order if all are numbers, else nothing."""
    numbers = [c for c in choices if isinstance(c, int | float) and not isinstance(c, bool)]
    return tuple(sorted(numbers)) if len(numbers) == len(choices) else ()


def _encode(parameter: Parameter, value: HparamValue) -> list[float]:
    if isinstance(parameter, Categorical):
        ranked = _ranked(parameter.choices)
        if ranked:
            places = [abs(float(choice) - float(value)) for choice in ranked]
            return [places.index(min(places)) / max(1, len(ranked) - 1)]
        return [math.sqrt(0.5) * (value == choice) for choice in parameter.choices]
    low, high, number = float(parameter.low), float(parameter.high), float(value)
    if parameter.log:
        low, high, number = math.log(low), math.log(high), math.log(number)
    return [(number - low) / (high - low) if high > low else 0.0]


def _axis(parameter: Parameter, points: int) -> list[HparamValue]:
    if isinstance(parameter, Categorical):
        return list(parameter.choices)
    space = np.geomspace if parameter.log else np.linspace
    raw = space(parameter.low, parameter.high, points) if points > 1 else [parameter.low]
    return list(dict.fromkeys(_fit(parameter, float(value)) for value in raw))


PUBLISHED_GA3C = SearchSpace(
    {
        "learning_rate": Real(1e-5, 1e-2, log=True),
        "t_max": Integer(2, 100, log=True),
        "gamma": Categorical((0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999)),
    }
)
"""The search space of the published GA3C runs (Heinrich & Frosio 2019, arXiv 1902.02725;
GTC 2019 talk "Distributed Meta Optimization of Reinforcement Learning Agents")."""


def infer(configurations: list[Hparams]) -> SearchSpace:
    """Guess a space from configurations that came without one.

    Numbers become a range from the least to the largest value, logarithmic if all are above 0
    and they span a factor of 10 or more; everything else becomes a choice.
    """
    parameters: dict[str, Parameter] = {}
    for name in configurations[0]:
        values = [configuration[name] for configuration in configurations]
        numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
        if len(numbers) < len(values):
            parameters[name] = Categorical(tuple(sorted(set(values), key=str)))
            continue
        low, high = min(numbers), max(numbers)
        log = low > 0 and high / low >= 10
        if all(isinstance(v, int) for v in numbers):
            parameters[name] = Integer(int(low), int(high), log)
        else:
            parameters[name] = Real(float(low), float(high), log)
    return SearchSpace(parameters)
