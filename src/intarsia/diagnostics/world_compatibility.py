"""Known results on SampleRank with each method that searches or samples a world."""

from __future__ import annotations

from intarsia.exceptions import InvalidInputError
from intarsia.learning.compatibility import GUARANTEED, HEURISTIC, Penalty

WORLDS = "worlds"

_SAMPLE = "sample_world"
_RANKING = Penalty(
    GUARANTEED,
    "hill climbing compares the pairs of neighbours that SampleRank ranks: after a pass without an error each accepted "
    "proposal improves F as well, and the number of errors is bounded if some weights rank all pairs",
    "Rohanimanesh2009",
)
_ANNEALING = Penalty(
    HEURISTIC,
    "it compares neighbours by the size of score differences, which ranking does not fix: scale the temperatures with "
    "the weights",
)
_CEM = Penalty(
    HEURISTIC,
    "it accepts the best of many sampled moves, whose order among each other SampleRank has not compared",
)
_MARGINALS = Penalty(
    HEURISTIC,
    "ranking fixes the order of states, not the scale of their scores, so that marginals are not calibrated: choose "
    "the temperature on labelled data",
)
_AGGLOMERATION = Penalty(HEURISTIC, "greedy merges of clusterings are never reverted, whatever the weights")
_JUDGEMENTS = {
    "hill_climbing": _RANKING,
    "annealing": _ANNEALING,
    "metropolis_hastings": _ANNEALING,
    "cem": _CEM,
    "cem_decode": _CEM,
    "agglomeration": _AGGLOMERATION,
    _SAMPLE: _MARGINALS,
}


def judge_search(method: str) -> Penalty:
    """Return the known result on weights that SampleRank learned, used by a search or by sampling of a world.

    Parameters
    ----------
    method : str
        Name of a method of `intarsia.worlds.decode`, or "sample_world".

    Examples
    --------
    >>> judge_search("hill_climbing").level, judge_search("sample_world").level
    ('guaranteed', 'heuristic')
    """
    if method not in _JUDGEMENTS:
        raise InvalidInputError(f"method={method!r} does not search worlds. Use one of {', '.join(_JUDGEMENTS)}.")
    return _JUDGEMENTS[method]


def searches() -> list[str]:
    """Return the names of the methods that have a row in the compatibility table, without other names of a method.

    Examples
    --------
    >>> searches()
    ['hill_climbing', 'annealing', 'cem', 'agglomeration', 'sample_world']
    """
    return ["hill_climbing", "annealing", "cem", "agglomeration", _SAMPLE]
