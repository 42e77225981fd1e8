"""hello_hccl on 1, 2, 4 and 8 ranks, and that it finds a wrong value."""

import pytest

from ascend_rt.examples import hello_hccl
from ascend_rt.testing import RankPool

pytestmark = pytest.mark.processes


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_it_says_what_each_rank_holds(ranks: RankPool, size: int) -> None:
    ended = ranks.hccl_run(["-n", str(size), "--timeout", "30", "--no-prefix", "-m", "ascend_rt.examples.hello_hccl"])
    lines = ended.stdout.splitlines()
    assert ended.exit_code == 0 and lines[-1] == "hello_hccl: ok", ended
    assert len(lines) == 4 * size + 1
    mean = sum(hello_hccl.gradients(rank)[:4].astype(float) for rank in range(size)) / size
    shown = [line for line in lines if "mean gradients" in line]
    assert [line.split()[1] for line in shown] == [str(rank) for rank in range(size)]
    for line in shown:
        numbers = [float(word) for word in line.split("[")[1].split("...")[0].split()]
        assert numbers == pytest.approx(list(mean), abs=1e-3)


def wrong_on_one_rank(comm: object) -> tuple[int, str]:
    """Rank 1 computes other gradients than everybody expects of it."""
    import contextlib
    import io

    right, said = hello_hccl.gradients, io.StringIO()
    rank = comm.rank  # type: ignore[attr-defined]
    upload = hello_hccl.Rank.upload

    def spoilt(on: hello_hccl.Rank, values: hello_hccl.Half) -> int:
        spoil = rank == 1 and len(values) == hello_hccl.GRADIENTS
        return upload(on, right(5) if spoil else values)

    hello_hccl.Rank.upload = spoilt  # type: ignore[method-assign]
    with contextlib.redirect_stdout(said):
        status = hello_hccl.main()
    return status, said.getvalue()


def test_wrong_values_are_found_on_every_rank(ranks: RankPool) -> None:
    outcomes = ranks.run(2, wrong_on_one_rank)
    assert [status for status, _ in outcomes] == [1, 1]
    assert outcomes[0][1].count("WRONG") == 2
