"""Tests of the memory that the plans of all principals share."""

import asyncio

import pytest

from gateway.blocking_work.byte_budget import ByteBudget
from gateway.blocking_work.principal_shares import calling_principal
from gateway.errors import GatewayError


def refusal():
    return GatewayError("LODGE_LIMIT_EXCEEDED", "53000", "Try again.")


async def reserve(budget, size_bytes, principal=None, until=None, order=None):
    calling_principal.set(principal)
    async with budget.reserve(size_bytes):
        if order is not None:
            order.append(f"{principal}{size_bytes}")
        await (asyncio.sleep(0.01) if until is None else until.wait())


async def started(*coroutines):
    tasks = [asyncio.create_task(each) for each in coroutines]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


async def test_memory_is_given_in_order_and_within_the_budget():
    budget, order = ByteBudget(200, 9, refusal), []

    async def work(size_bytes):
        async with budget.reserve(size_bytes):
            order.append(size_bytes)
            assert budget.used_bytes <= 100, "the share of one principal"
            await asyncio.sleep(0.01)

    sizes = [60, 61, 500, 10, 90]
    await asyncio.gather(*map(work, sizes))
    assert order == sizes
    assert budget.used_bytes == 0


async def test_principal_leaves_the_half_to_others():
    budget, end = ByteBudget(200, 9, refusal), asyncio.Event()
    greedy = await started(*(reserve(budget, 60, "greedy", end) for _ in range(3)))
    assert budget.used_bytes == 60
    await asyncio.wait_for(reserve(budget, 100, "modest"), 10)
    end.set()
    await asyncio.gather(*greedy)
    assert budget.used_bytes == 0


async def test_principals_take_turns_and_a_large_plan_is_not_overtaken():
    budget, order, end = ByteBudget(200, 9, refusal), [], asyncio.Event()
    first = await started(reserve(budget, 80, "a", end), reserve(budget, 80, "b", end))
    waiting = await started(
        *(reserve(budget, 30, "a", order=order) for _ in range(2)),
        reserve(budget, 100, "c", order=order),
        *(reserve(budget, 20, "d", order=order) for _ in range(2)),
    )
    assert not order, "c waits for a and b, so d does not overtake it, and a has no more than its share"
    end.set()
    await asyncio.gather(*first, *waiting)
    assert order == ["a30", "c100", "d20", "a30", "d20"]


async def test_cancelled_wait_does_not_keep_memory():
    budget, end = ByteBudget(200, 9, refusal), asyncio.Event()
    holder, large, small = await started(
        reserve(budget, 100, "a", end), reserve(budget, 100, "a"), reserve(budget, 1, "a")
    )
    large.cancel()
    end.set()
    await asyncio.gather(holder, small)
    assert large.cancelled()
    assert budget.used_bytes == 0


async def test_wait_ends_in_time(monkeypatch):
    monkeypatch.setattr("gateway.blocking_work.byte_budget._WAIT_SECONDS", 0.01)
    budget, end = ByteBudget(200, 9, refusal), asyncio.Event()
    (holder,) = await started(reserve(budget, 100, "a", end))
    with pytest.raises(GatewayError, match="LODGE_LIMIT_EXCEEDED"):
        await reserve(budget, 1, "a")
    end.set()
    await holder
    assert budget.used_bytes == 0


async def test_principal_that_waits_often_is_refused_before_others():
    budget, end = ByteBudget(200, 4, refusal), asyncio.Event()
    tasks = await started(*(reserve(budget, 100, "a", end) for _ in range(3)))
    with pytest.raises(GatewayError, match="LODGE_LIMIT_EXCEEDED"):
        await reserve(budget, 1, "a")
    await reserve(budget, 1, "b")
    end.set()
    await asyncio.gather(*tasks)
