"""What a call is predicted to take, against formulas; and that on one host no prediction is needed to choose."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_rt.plan import COLLECTIVES, listing
from ascend_rt.plan.cost import as_written
from ascend_rt.plan.model import Constants, Machine, Work, work, work_of_a_round

pytestmark = pytest.mark.proof

SIZES = range(2, 17)


@pytest.mark.parametrize("p", SIZES)
def test_bytes_touched_are_those_of_the_formulas(p):
    """Loads and stores of own memory count as well: a rank of a mesh that folds loads n and stores n."""
    share = Fraction(p - 1, p)
    for (collective, algorithm), touched in {
        ("all_reduce", "mesh"): 2,
        ("reduce", "mesh"): 1 + Fraction(1, p),
        ("reduce_scatter", "mesh"): 1 + Fraction(1, p),
        ("broadcast", "mesh"): 2,
        ("all_gather", "mesh"): 2,
        ("all_to_all", "mesh"): 2,
        ("all_reduce", "ring"): 5 * share,  # two loads and a store per fold, a load and a store per block passed on
        ("reduce_scatter", "ring"): 3 * share,
        ("all_gather", "ring"): 2,
    }.items():
        assert as_written(collective, algorithm, p).touched == touched, (collective, algorithm)


@pytest.mark.parametrize("p", [2, 3, 4, 5, 7, 8, 12])
def test_nothing_beats_the_mesh_in_anything(p):
    """So it is predicted to be the fastest, whatever the constants of the machine are."""
    for collective, algorithm in listing():
        mesh, other = as_written(collective, "mesh", p), as_written(collective, algorithm, p)
        assert mesh.rounds <= other.rounds and mesh.touched <= other.touched and mesh.folded <= other.folded, algorithm


constants = st.builds(Constants, *[st.floats(0, 1e3)] * len(Constants._fields))


@settings(max_examples=settings.default.max_examples // 2)
@given(st.integers(1, 9), constants, st.sampled_from(listing()), st.integers(2, 8))
def test_a_prediction_is_the_formula(cores, machine, pair, p):
    nbytes, spec = 4096, COLLECTIVES[pair[0]]
    written = as_written(*pair, p)
    n = nbytes * max(spec.blocks_in.number(p), spec.blocks_out.number(p))
    crowd = max(1, p / cores)
    alpha = machine.alpha_us if p <= cores else crowd * machine.switch_us
    per_byte = float(written.touched) * machine.beta_us_per_byte + float(written.folded) * machine.gamma_us_per_byte
    want = (written.rounds + 1) * alpha + crowd * n * per_byte
    assert Machine(cores, machine).predicted_us(*pair, p, nbytes) == pytest.approx(want, rel=1e-9)


def test_work_counts_waits_of_ranks_with_a_core_apart_from_turns():
    assert work(8, "all_reduce", "mesh", 4, 1000) == Work(2, 0, 2000, 750)
    assert work(2, "all_reduce", "mesh", 4, 1000) == Work(0, 4, 4000, 1500)
    assert work(2, "all_gather", "mesh", 4, 1000) == Work(0, 4, 16000, 0)
    assert (work_of_a_round(2, 2), work_of_a_round(2, 5)) == (Work(1, 0, 0, 0), Work(0, 2.5, 0, 0))
    servers = (("servers", ((0, 1), (2, 3))),)
    assert work(4, "all_reduce", "mesh+ring", 4, 1000, servers).waits == 5
