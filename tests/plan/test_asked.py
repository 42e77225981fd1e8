"""HCCL_ALGO's algorithms of level 1 as ours, by what is known of the servers."""

import pytest

from ascend_rt.plan import COLLECTIVES, build_all, names
from ascend_rt.plan.asked import OPERATORS, between_servers, by_own_name
from ascend_rt.plan.layout import Call
from ascend_rt.plan.verify import prove
from ascend_rt.setting_row import ALGORITHMS
from ascend_rt.setting_row import OPERATORS as OPERATORS_OF_THE_VARIABLE

pytestmark = pytest.mark.proof

TWO_BY_FOUR = ((0, 1, 2, 3), (4, 5, 6, 7))
UNEQUAL = ((0, 1, 2), (3, 4, 5, 6, 7))

# facts of HCCL: operator -> its algorithms between servers, and what it takes where it has not the one that is named
OF_HCCL = {
    "reduce_scatter": ({"ring", "H-D_R", "NHR", "NHR_V1", "NB", "pipeline", "AHC"}, "NHR"),
    "all_gather": ({"ring", "H-D_R", "NHR", "NHR_V1", "NB", "pipeline", "AHC"}, "NHR"),
    "all_reduce": ({"ring", "H-D_R", "NHR", "NHR_V1", "NB", "pipeline", "AHC"}, "NHR"),
    "broadcast": ({"H-D_R", "NHR", "NHR_V1", "NB"}, "NHR"),
    "reduce": ({"ring", "H-D_R"}, "H-D_R"),
    "scatter": ({"ring", "NHR", "NB", "NHR_V1"}, "NHR"),
    "all_to_all": ({"pairwise"}, "pairwise"),
}


def test_operators_are_those_of_the_variable():
    assert tuple(OPERATORS) == OPERATORS_OF_THE_VARIABLE and set(OPERATORS.values()) == set(OF_HCCL) < set(COLLECTIVES)


@pytest.mark.parametrize("collective", OF_HCCL)
@pytest.mark.parametrize("asked", ALGORITHMS)
def test_every_operator_with_every_algorithm(collective, asked):
    has, otherwise = OF_HCCL[collective]
    meant = {"NHR_V1": "NHR"}.get(asked, asked) if asked in has else otherwise
    own = meant in ("pipeline", "AHC")
    name, options = between_servers(collective, asked, 8, TWO_BY_FOUR)
    assert (name, options) == (meant if own else f"mesh+{meant}", (("servers", TWO_BY_FOUR),))
    prove(Call(build_all(collective, name, 8, **dict(options)), 33))
    name, options = between_servers(collective, asked, 5, ())
    assert name == meant and options == ((("servers", ((0,), (1,), (2,), (3,), (4,))),) if own else ())
    prove(Call(build_all(collective, name, 5, **dict(options)), 33))


@pytest.mark.parametrize("asked", ALGORITHMS)
def test_servers_of_unequally_many_ranks_take_ahc_or_nothing(asked):
    for collective in OF_HCCL:
        found = between_servers(collective, asked, 8, UNEQUAL)
        assert found == (("AHC", (("servers", UNEQUAL),)) if "AHC" in names(collective) else None)


@pytest.mark.parametrize("asked", ALGORITHMS)
def test_one_server_has_no_level_1(asked):
    assert all(between_servers(name, asked, 4, ((0, 1, 2, 3),)) is None for name in OF_HCCL)
    assert all(between_servers(name, asked, 1, ()) is None for name in OF_HCCL)


def test_by_own_name():
    assert by_own_name("all_reduce", "ring", TWO_BY_FOUR) == ("ring", ())
    assert by_own_name("all_reduce", "mesh+NB", TWO_BY_FOUR) == ("mesh+NB", (("servers", TWO_BY_FOUR),))
    assert by_own_name("all_reduce", "mesh+NB", ()) == ("mesh+NB", ())
    assert by_own_name("all_gather", "AHC", UNEQUAL) == ("AHC", (("servers", UNEQUAL),))
    assert by_own_name("all_reduce", "mesh+NB", UNEQUAL) is None
    with pytest.raises(ValueError, match=r"algorithm 'star' of 'all_reduce': expected one of .*ring"):
        by_own_name("all_reduce", "star", ())
    with pytest.raises(ValueError, match=r"'allreduce': expected one of .no such collective; there are .*all_reduce"):
        by_own_name("allreduce", "ring", ())
