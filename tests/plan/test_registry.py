"""Finding and building algorithms."""

import pytest

from ascend_rt.plan import COLLECTIVES, PlanError, algorithm, build, build_all, listing, names, registry

pytestmark = pytest.mark.proof


@pytest.fixture
def own_registry(monkeypatch):
    monkeypatch.setattr(registry, "_ALGORITHMS", dict(registry._ALGORITHMS))


def test_listing():
    assert list(dict.fromkeys(collective for collective, _ in listing())) == list(COLLECTIVES)
    assert all("mesh" in names(collective) for collective in COLLECTIVES)
    assert {"mesh", "ring", "H-D_R", "NHR", "NB", "pipeline", "AHC", "mesh+ring"} < set(names("all_reduce"))
    assert names("all_to_all") == ("mesh", "mesh+pairwise", "pairwise")


@pytest.mark.parametrize("servers", [((0, 1),), ((0, 1), (1, 2)), ((0, 1, 2), ()), ((0, 1, 2, 3),)])
def test_servers_hold_each_rank_once(servers):
    with pytest.raises(ValueError, match="expected groups that hold each of the 3 ranks once"):
        build("all_reduce", "AHC", 0, 3, servers=servers)


def test_servers_of_unequally_many_ranks_are_for_ahc():
    servers = ((0, 1), (2,))
    assert build("all_reduce", "AHC", 0, 3, servers=servers).touches
    with pytest.raises(ValueError, match="servers with 2, 1 ranks: expected equally many; AHC is for others"):
        build("all_reduce", "mesh+ring", 0, 3, servers=servers)


def test_plans_are_cached():
    assert build("broadcast", "ring", 1, 3, 2) is build("broadcast", "ring", 1, 3, root=2)
    servers = ((0, 1), (2, 3))
    assert build("all_reduce", "AHC", 1, 4, servers=servers) is build("all_reduce", "AHC", 1, 4, 0, servers=servers)
    assert [plan.rank for plan in build_all("broadcast", "ring", 3, 2)] == [0, 1, 2]
    assert all(plan.root == 2 for plan in build_all("broadcast", "ring", 3, 2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("all_reduce", "star", 0, 2), "algorithm 'star' of 'all_reduce': expected one of .*mesh, .*ring"),
        (("reverse", "mesh", 0, 2), "no such collective; there are broadcast, all_reduce"),
        (("all_reduce", "mesh", 2, 2), r"rank 2: expected 0\.\.1"),
        (("broadcast", "mesh", 0, 2, 2), r"root 2: expected 0\.\.1"),
        (("all_reduce", "mesh", 0, 2, 1), "root 1: expected 0, this collective has no root"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        build(*arguments)


def test_an_algorithm_is_one_decorated_function(own_registry):
    @algorithm("broadcast", "test of the registry")
    def write(p):
        p.enter()
        p.copy(p.out(p.rank), p.inp(p.root))
        p.leave()

    assert ("broadcast", "test of the registry") in listing()
    assert build("broadcast", "test of the registry", 1, 2).body == build("broadcast", "mesh", 1, 2).body
    with pytest.raises(ValueError, match="registered already"):
        algorithm("broadcast", "test of the registry")
    with pytest.raises(ValueError, match="expected one of broadcast"):
        algorithm("reverse", "mesh")


def test_every_plan_is_checked_when_it_is_built(own_registry):
    @algorithm("broadcast", "without leave")
    def write(p):
        p.enter()
        p.copy(p.out(p.rank), p.inp(p.root))

    with pytest.raises(PlanError, match=r"broadcast/without leave: rank 0 of 2.*leave last"):
        build("broadcast", "without leave", 0, 2)


def test_a_plan_prints_its_steps():
    assert str(build("all_gather", "mesh", 0, 2)).splitlines() == [
        "all_gather/mesh, rank 0 of 2, 1 chunks per block",
        "   0 Post(to rank 1)",
        "   1 Wait(for rank 1)",
        "   2 Copy(OUT[0] of rank 0 <- IN[0] of rank 0, n=1)",
        "   3 Copy(OUT[1] of rank 0 <- IN[0] of rank 1, n=1)",
        "   4 Post(to rank 1)",
        "   5 Wait(for rank 1)",
    ]
