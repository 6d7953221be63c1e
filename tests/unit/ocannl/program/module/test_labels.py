"""Labels of the nodes of a module."""

from __future__ import annotations

from ocannl.program.module.labels import Labels


class Looked(dict[str, None]):
    """Labels that are taken, which count how often one is looked for."""

    count = 0

    def __contains__(self, key: object) -> bool:
        self.count += 1
        return super().__contains__(key)


def test_each_of_many_equal_names_is_looked_for_as_often():
    taken = Looked()
    labels = Labels(taken)
    for _ in range(1000):
        taken[labels.unique("cast")] = None
    assert [*taken][:3] == ["cast", "cast2", "cast3"]
    assert [*taken][-1] == "cast1000"
    assert taken.count < 3 * len(taken)


def test_labels_kept_for_others_are_left_out():
    taken: dict[str, None] = {}
    labels, kept = Labels(taken), ("w", "w2")
    for _ in range(2):
        taken[labels.unique("w", kept)] = None
    taken[labels.unique("w")] = None
    assert [*taken] == ["w3", "w4", "w"]


def test_numbers_stand_apart_from_names_that_end_in_one_and_from_those_of_gradients():
    taken: dict[str, None] = {}
    labels = Labels(taken)
    for wanted in ("w1", "w1", "x.grad", "x.grad"):
        taken[labels.unique(wanted)] = None
    assert [*taken] == ["w1", "w1x2", "x.grad_", "x.grad_2"]
