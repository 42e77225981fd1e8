"""Costs counted from plans, against HCCL's closed formulas (alpha, beta and gamma for n bytes on p ranks)."""

from fractions import Fraction

import pytest

from ascend_rt.plan import listing
from ascend_rt.plan.algorithms.ring import PIECES
from ascend_rt.plan.cost import as_written, cost, table

pytestmark = pytest.mark.proof

SIZES = range(2, 17)
POWERS_OF_TWO = ("H-D_R", "NHR", "NB")


def alpha_beta_gamma(collective, algorithm, p, **options):
    """(steps, bytes / n, folded bytes / n) as they are counted."""
    c = as_written(collective, algorithm, p, **options)
    return c.rounds, c.moved, c.folded


def formulas(p):
    """(collective, algorithm) -> the same by formula."""
    share, log = Fraction(p - 1, p), (p - 1).bit_length()
    k = p.bit_length() - 1
    q = 2**k
    core = Fraction(q - 1, q)
    halves = sum(Fraction(-(-p // 2**i), p) for i in range(1, k + 1))
    found = {
        ("reduce_scatter", "ring"): (p - 1, share, share),
        ("all_gather", "ring"): (p - 1, share, 0),
        ("all_reduce", "ring"): (2 * (p - 1), 2 * share, share),
        ("scatter", "ring"): (p - 1, share, 0),
        ("gather", "ring"): (p - 1, share, 0),
        ("broadcast", "H-D_R"): (log, log, 0),
        ("broadcast", "tree"): (log, log, 0),
        ("reduce", "tree"): (log, log, log),
        ("gather", "tree"): (log, share, 0),
        ("all_to_all", "pairwise"): (p - 1, share, 0),
    }
    for name in ("NHR", "NB"):
        found["reduce_scatter", name] = (log, share, share)
        found["all_gather", name] = (log, share, 0)
        found["all_reduce", name] = (2 * log, 2 * share, share)
        found["broadcast", name] = (2 * log, 2 * share, 0)
        found["scatter", name] = (log, share, 0)
    if p == q:
        found["reduce_scatter", "H-D_R"] = (k, share, share)
        found["all_gather", "H-D_R"] = (k, share, 0)
        found["all_reduce", "H-D_R"] = found["reduce", "H-D_R"] = (2 * k, 2 * share, share)
    else:
        found["reduce_scatter", "H-D_R"] = (k + 2, 1 + halves + Fraction(1, p), 1 + halves)
        # HCCL's formula has n for the last step: here the rank's own block stays out of it.
        found["all_gather", "H-D_R"] = (k + 2, Fraction(1, p) + halves + share, 0)
        found["all_reduce", "H-D_R"] = (2 * k + 2, 2 * core + 2, core + 1)
        found["reduce", "H-D_R"] = (2 * k + 1, 2 * core + 1, core + 1)
    return found


@pytest.mark.parametrize("p", SIZES)
def test_steps_and_bytes_are_those_of_the_formulas(p):
    counted = {pair: alpha_beta_gamma(*pair, p) for pair in formulas(p)}
    assert counted == formulas(p)


@pytest.mark.parametrize("p", [2, 3, 6, 8])
def test_plans_take_no_longer_than_the_rounds_they_are_written_in(p):
    for pair in listing():
        written, planned = as_written(*pair, p), cost(*pair, p)
        assert planned.rounds <= written.rounds
        assert planned.path <= written.moved


@pytest.mark.parametrize("p", SIZES)
def test_one_message_in_each_round(p):
    """A rank tells one other rank that the next round may come: one post less than there are rounds."""
    for name, collectives in {
        "ring": ("reduce_scatter", "all_gather", "all_reduce", "scatter", "gather"),
        **(dict.fromkeys(POWERS_OF_TWO, ("reduce_scatter", "all_gather", "all_reduce")) if p & (p - 1) == 0 else {}),
    }.items():
        for collective in collectives:
            c = cost(collective, name, p)
            assert c.posts == c.rounds - 1, (collective, name)


@pytest.mark.parametrize("p", SIZES)
def test_chains_overlap(p):
    """HCCL's (p - 1)(a + n b) is that of one piece; pieces that follow one another take less."""
    for collective, folded in (("broadcast", 0), ("reduce", 1)):
        c = cost(collective, "ring", p)
        assert (c.rounds, c.path, c.folded) == (p - 1, 1 + Fraction(p - 2, PIECES), folded)


@pytest.mark.parametrize("p", SIZES)
def test_mesh_and_star_take_one_round(p):
    """By mesh HCCL takes two rounds for all-reduce (2n/p per link), reduce and broadcast."""
    share = Fraction(p - 1, p)
    for algorithm, collective, link, folded in (
        ("mesh", "reduce_scatter", Fraction(1, p), share),
        ("mesh", "all_gather", Fraction(1, p), 0),
        ("mesh", "all_to_all", Fraction(1, p), 0),
        ("mesh", "scatter", Fraction(1, p), 0),
        ("mesh", "gather", Fraction(1, p), 0),
        ("mesh", "all_reduce", Fraction(2, p), share),
        ("mesh", "reduce", Fraction(2, p), share),
        ("mesh", "broadcast", 1, 0),
        ("star", "broadcast", 1, 0),
        ("star", "reduce", 1, p - 1),
        ("star", "scatter", Fraction(1, p), 0),
        ("star", "gather", Fraction(1, p), 0),
    ):
        c = cost(collective, algorithm, p)
        assert (c.rounds, c.posts, c.link, c.folded) == (1, 0, link, folded), (algorithm, collective)


def split(*counts):
    starts = [sum(counts[:place]) for place in range(len(counts))]
    return tuple(tuple(range(start, start + count)) for start, count in zip(starts, counts, strict=True))


@pytest.mark.parametrize(("count", "ranks"), [(2, 2), (2, 4), (3, 2), (4, 4), (3, 3)])
def test_pipeline_takes_one_round_per_server(count, ranks):
    """Links inside and between being alike: P (a + n/p b)."""
    p, servers = count * ranks, split(*[ranks] * count)
    for collective, times in (("reduce_scatter", 1), ("all_gather", 1), ("all_reduce", 2)):
        c = cost(collective, "pipeline", p, servers=servers)
        assert (c.rounds, c.link) == (times * count, Fraction(times * count, p))


@pytest.mark.parametrize("counts", [(1, 2), (2, 3), (4, 3), (1, 3, 2), (5, 1, 2), (4, 4), (7, 9)])
def test_ahc_has_its_rounds_and_no_more_bytes(counts):
    p, smallest, largest, number = sum(counts), min(counts), max(counts), len(counts)
    rounds = (largest - 1).bit_length() + (number - 1).bit_length()
    inside, between = Fraction(largest - 1, largest), Fraction(number - 1, number * smallest)
    c = cost("all_reduce", "AHC", p, servers=split(*counts))
    assert c.folded <= inside + between
    assert c.moved <= 2 * (inside + between)
    assert as_written("all_reduce", "AHC", p, servers=split(*counts)).rounds == 2 * rounds
    for collective in ("reduce_scatter", "all_gather"):
        assert as_written(collective, "AHC", p, servers=split(*counts)).rounds == rounds


@pytest.mark.parametrize(("count", "ranks"), [(2, 4), (4, 2), (3, 3)])
def test_compositions_move_what_their_levels_move(count, ranks):
    """All-reduce: 1/ranks of the data between servers, whatever the algorithm there; mesh inside."""
    p, servers, log = count * ranks, split(*[ranks] * count), (count - 1).bit_length()
    inside, between = Fraction(ranks - 1, ranks), Fraction(count - 1, p)
    rounds = {"ring": 2 * (count - 1), "NHR": 2 * log, "NB": 2 * log}
    for name, steps in rounds.items():
        counted = alpha_beta_gamma("all_reduce", f"mesh+{name}", p, servers=servers)
        assert counted == (2 + steps, 2 * (inside + between), inside + between)


def test_one_rank_moves_nothing_to_others():
    for collective, algorithm in listing():
        c = cost(collective, algorithm, 1)
        assert (c.rounds, c.posts, c.moved, c.link, c.path, c.folded) == (0, 0, 0, 0, 0, 0)


def test_table_has_a_line_per_algorithm():
    lines = table(8).splitlines()
    assert len(lines) == 1 + len(listing())
    ring = next(line for line in lines if line.split()[:2] == ["all_reduce", "ring"])
    assert ring.split() == ["all_reduce", "ring", "14", "13", "14", *("1.750", "n") * 3, "0.875", "n"]
