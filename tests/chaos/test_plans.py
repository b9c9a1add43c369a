"""Which faults are planned for which site."""

from tests.chaos.faults import FAULTS, faults_of
from tests.chaos.plans import plan_all_faults, plan_random_faults
from tests.chaos.stores import FILES, KUBERNETES, S3, STORES

ROUNDS = 200


def test_random_rounds_have_all_faults_of_a_store() -> None:
    for store in STORES:
        plans = list(plan_random_faults("seed", ROUNDS, 1.0, store))
        assert {fault.name for plan in plans for fault in plan.faults} == faults_of(store).keys()
    assert {name for store in STORES for name in faults_of(store)} == FAULTS.keys()


def test_faults_break_only_what_a_site_has() -> None:
    assert not any("api" in fault.touches for fault in faults_of(FILES).values())
    assert faults_of(S3).keys() - faults_of(KUBERNETES).keys() == {"s3_hanging", "s3_stopped"}


def test_few_rounds_have_all_faults_of_a_site_on_kubernetes() -> None:
    played = [fault.name for plan in plan_all_faults("seed", 1.0) for fault in plan.faults]
    assert sorted(played) == sorted(faults_of(KUBERNETES))


def test_faults_of_a_round_touch_nothing_in_common() -> None:
    for plan in (*plan_random_faults("seed", ROUNDS, 1.0), *plan_all_faults("seed", 1.0)):
        touched = [thing for fault in plan.faults for thing in fault.touches]
        assert plan.faults
        assert len(touched) == len(set(touched)), plan
