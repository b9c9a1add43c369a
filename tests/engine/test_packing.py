from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from engine.packing import pack, task_bytes


@given(st.lists(st.integers(0, 1000)), st.integers(1, 2000), st.integers(0, 100))
def test_pack_keeps_order_and_leaves_no_two_groups_that_fit_in_one(sizes, target, cost):
    groups = list(pack((((n, size), size) for n, size in enumerate(sizes)), target, cost))
    assert [one for group in groups for one in group] == list(enumerate(sizes))
    totals = [sum(size + cost for _, size in group) for group in groups]
    assert all(total <= target or len(group) == 1 for total, group in zip(totals, groups, strict=True))
    for before, after in pairwise(groups):
        assert sum(size + cost for _, size in before) + after[0][1] + cost > target


@given(st.integers(0, 10**15))
def test_task_bytes_are_between_16_and_64_mib(total_bytes):
    assert 16 * 2**20 <= task_bytes(total_bytes) <= 64 * 2**20
    assert task_bytes(total_bytes) <= task_bytes(total_bytes + 1)
