from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from engine.packing import pack, task_bytes


@given(st.lists(st.integers(0, 1000)), st.integers(1, 2000), st.integers(0, 100))
def test_every_item_is_in_one_group_in_order_and_no_two_groups_fit_into_one(sizes, target, cost):
    groups = list(pack((((n, size), size) for n, size in enumerate(sizes)), target, cost))
    assert [one for group in groups for one in group] == list(enumerate(sizes))
    totals = [sum(size + cost for _, size in group) for group in groups]
    assert all(total <= target or len(group) == 1 for total, group in zip(totals, groups, strict=True))
    for before, after in pairwise(groups):
        assert sum(size + cost for _, size in before) + after[0][1] + cost > target


@given(st.integers(0, 10**15))
def test_a_task_reads_a_share_that_is_worth_it_and_not_too_large(total_bytes):
    assert 16 * 2**20 <= task_bytes(total_bytes) <= 64 * 2**20
    assert task_bytes(total_bytes) <= task_bytes(total_bytes + 1)
