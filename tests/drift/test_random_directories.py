"""Scans of random directories return what a simple implementation of the rules returns."""

from tests.drift.random_directories import check

COUNT = 200


def test_scans_of_random_directories_are_right(tmp_path):
    refused = 0
    for number in range(COUNT):
        place = tmp_path / str(number)
        place.mkdir()
        refused += check(number, place)
    assert COUNT / 10 < refused < COUNT / 2  # otherwise the directories are not those that matter
