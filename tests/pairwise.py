"""A small covering array: few cases in which every pair of values of two factors occurs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import Any

Case = dict[str, Any]
Pair = tuple[tuple[str, Any], tuple[str, Any]]


def pairs_of(case: Case) -> set[Pair]:
    """The pairs of (factor, value) that a case holds, in the order of its factors."""
    return set(combinations(case.items(), 2))


def all_pairs(factors: Mapping[str, Sequence[Any]]) -> set[Pair]:
    """Every pair that some case of the full matrix holds."""
    return {
        ((a, x), (b, y))
        for a, b in combinations(factors, 2)
        for x, y in product(factors[a], factors[b])
    }


def pairwise_cases(factors: Mapping[str, Sequence[Any]]) -> list[Case]:
    """Cases that hold every pair; the same ones every time.

    Greedy: a case starts with a pair that is still open, and each other factor takes the value
    that closes most open pairs with what the case already holds.
    """
    open_pairs = dict.fromkeys(sorted(all_pairs(factors), key=repr))
    cases: list[Case] = []
    while open_pairs:
        chosen: Case = dict(next(iter(open_pairs)))
        for factor in (name for name in factors if name not in chosen):
            chosen[factor] = max(
                factors[factor],
                key=lambda v, f=factor: _closed(chosen | {f: v}, factors, open_pairs),
            )
        case = {name: chosen[name] for name in factors}
        for pair in pairs_of(case):
            open_pairs.pop(pair, None)
        cases.append(case)
    return cases


def _closed(
    case: Case, factors: Mapping[str, Sequence[Any]], open_pairs: Mapping[Pair, None]
) -> int:
    ordered = {name: case[name] for name in factors if name in case}
    return sum(pair in open_pairs for pair in pairs_of(ordered))
