"""Groups of ranks that are threads of one process."""

import threading

import pytest

from ascend_rt.link.errors import GroupError
from ascend_rt.link.membership import Group, Membership
from ascend_rt.link.rendezvous import ranks_of_this_process
from ascend_rt.link.segment import make_job_memory

pytestmark = pytest.mark.threads


def test_threads_wait_for_one_another() -> None:
    """Each learns of the others' places, and a board is given out again when all have dropped it."""
    members = ranks_of_this_process(make_job_memory(3))
    formed: dict[int, list[Group]] = {}

    def rank_thread(member: Membership) -> None:
        groups = []
        for number in range(20):
            place = (member.rank + number) % 3
            groups.append(member.form_group(f"key{number}", place, 3, terms="A=1", timeout=20.0))
            if number % 2:
                member.drop(groups[-1])
        formed[member.rank] = groups

    threads = [threading.Thread(target=rank_thread, args=(member,)) for member in members]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert formed[0] == formed[1] == formed[2]
    assert [group.members.index(0) for group in formed[0]] == [number % 3 for number in range(20)]
    kept = [group.board for group in formed[0][::2]]
    assert len(set(kept)) == 10
    assert all(member.shares_process for member in members)


def test_who_does_not_come_is_named() -> None:
    first, _ = ranks_of_this_process(make_job_memory(2))
    with pytest.raises(GroupError, match=r"rank 0 waited 0.01 s .* still missing: rank 1"):
        first.form_group("key", 0, 2, timeout=0.01)
    (alone,) = ranks_of_this_process(make_job_memory(1))
    assert alone.form_group("key", 0, 1, timeout=0.0).members == (0,) and not alone.shares_process
