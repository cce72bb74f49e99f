"""The tree, its prototypes, probabilities, hold-outs and exemplars, each against its definition."""

from __future__ import annotations

import math

import pytest
import torch

from plot_attractors.data import DataSet, HierarchicalBinaryVectors

SIZES = [(1, 2), (2, 12), (3, 16), (4, 16), (5, 96), (6, 128), (7, 128)]
HELD_OUT_SIZES = [(3, 8), (4, 16), (5, 32), (6, 128), (8, 256)]


def ancestors(data: HierarchicalBinaryVectors, node: int) -> list[int]:
    """The classes above a node, the nearest first, by following its parents."""
    above = []
    while (node := int(data.parents[node])) >= 0:
        above.append(node)
    return above


@pytest.mark.parametrize(("depth", "bits"), SIZES)
def test_children_halve_their_parent(depth: int, bits: int) -> None:
    data = HierarchicalBinaryVectors(depth, bits)
    nodes = 2 ** (depth + 1) - 2
    assert data.prototypes.shape == (nodes, bits)
    for parent in range(-1, nodes):
        ones = torch.ones(bits) if parent < 0 else data.prototypes[parent]
        children = torch.nonzero(data.parents == parent).flatten().tolist()
        if parent >= 0 and data.depths[parent] == depth:
            assert not children
            assert ones.sum() == bits // 2**depth
            continue
        left, right = children
        assert torch.equal(
            data.prototypes[left] + data.prototypes[right], ones
        )  # together all, and no overlap
        places = torch.nonzero(ones).flatten()
        half = len(places) // 2
        assert torch.equal(torch.nonzero(data.prototypes[left]).flatten(), places[:half])
        assert torch.equal(torch.nonzero(data.prototypes[right]).flatten(), places[half:])
        assert (
            data.depths[left]
            == data.depths[right]
            == (1 if parent < 0 else data.depths[parent] + 1)
        )


def test_default_is_the_papers_size() -> None:
    data = HierarchicalBinaryVectors()
    assert (data.depth, data.bits, len(data.depths)) == (6, 128, 126)
    assert len(data.train_classes) + len(data.held_out_classes) == 126
    assert isinstance(data, DataSet)


@pytest.mark.parametrize(("depth", "bits"), [(1, 4), (3, 16), (5, 64)])
def test_probabilities_follow_the_formula_bit_by_bit(depth: int, bits: int) -> None:
    data = HierarchicalBinaryVectors(depth, bits)
    for node in range(len(data.depths)):
        d = int(data.depths[node])
        for k in range(bits):
            line = [node, *ancestors(data, node)]
            nearest = next(
                (int(data.depths[a]) for a in line if data.prototypes[a, k]), 0
            )  # the root is all 1s
            assert float(data.probabilities[node, k]) == pytest.approx(
                2 ** (1 + nearest) / (1 + 2 ** (1 + d))
            )


def test_each_generation_further_away_halves_the_probability() -> None:
    data = HierarchicalBinaryVectors(3, 16)
    node = data.class_names.index("LLL")
    assert data.probabilities[node, ::2].tolist() == pytest.approx(
        [16 / 17, 8 / 17, *[4 / 17] * 2, *[2 / 17] * 4]
    )
    for row in HierarchicalBinaryVectors(6, 64).probabilities:
        values = row.unique()
        torch.testing.assert_close(values[1:] / values[:-1], torch.full((len(values) - 1,), 2.0))


def test_exemplars_have_these_probabilities() -> None:
    torch.manual_seed(0)
    data = HierarchicalBinaryVectors(4, 32, hold_out=False)
    batch = data.batch(60_000)
    count = torch.zeros(len(data.depths)).index_add_(0, batch.y, torch.ones(len(batch.y)))
    ones = torch.zeros(data.prototypes.shape).index_add_(0, batch.y, batch.x)
    p = data.probabilities
    z = (ones / count[:, None] - p) / (p * (1 - p) / count[:, None]).sqrt()
    # 960 bits: the largest of so many standard normals stays below 4.5 but for one run in 150.
    assert z.abs().max() < 4.5
    assert abs(float(z.mean())) < 4 / math.sqrt(z.numel())
    assert float(z.var()) == pytest.approx(1, abs=4 * math.sqrt(2 / z.numel()))
    # Classes are drawn uniformly.
    share = 1 / len(data.depths)
    assert (
        (count / len(batch.y) - share).abs() < 4 * math.sqrt(share * (1 - share) / len(batch.y))
    ).all()


def test_bits_of_a_class_are_independent() -> None:
    torch.manual_seed(0)
    data = HierarchicalBinaryVectors(2, 8)
    x = data.exemplars(torch.full((20_000,), 3))
    r = torch.corrcoef(x.T).fill_diagonal_(0)
    assert r.abs().max() < 4 / math.sqrt(len(x))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("depth", "bits"), HELD_OUT_SIZES)
def test_hold_outs(depth: int, bits: int, seed: int) -> None:
    data = HierarchicalBinaryVectors(depth, bits, hold_out_seed=seed)
    chosen = data.held_out_prototypes.tolist()
    assert data.depths[data.held_out_prototypes].tolist() == list(
        range(3, depth + 1)
    )  # one a generation
    for node in chosen:
        assert not set(ancestors(data, node)) & set(chosen)  # none below another
    family = {n for n in range(len(data.depths)) if {n, *ancestors(data, n)} & set(chosen)}
    held_out, train = set(data.held_out_classes.tolist()), set(data.train_classes.tolist())
    assert held_out == family
    assert not held_out & train
    assert held_out | train == set(range(len(data.depths)))
    torch.manual_seed(seed)
    for split, classes in (("train", train), ("held_out", held_out)):
        assert set(data.batch(100 * len(classes), split).y.tolist()) == classes


def test_hold_out_seed_decides_and_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    chosen = [
        tuple(HierarchicalBinaryVectors(hold_out_seed=s).held_out_prototypes.tolist())
        for s in (0, 0, 1, 2)
    ]
    assert torch.equal(torch.rand(4), expected)
    assert chosen[0] == chosen[1]
    assert len(set(chosen)) == 3


@pytest.mark.parametrize(
    "data", [HierarchicalBinaryVectors(2, 4), HierarchicalBinaryVectors(4, 16, hold_out=False)]
)
def test_nothing_held_out(data: HierarchicalBinaryVectors) -> None:
    assert data.splits == ("train",)
    assert len(data.held_out_classes) == 0
    assert len(data.train_classes) == len(data.depths)
    with pytest.raises(ValueError, match="unknown split 'held_out': this data set has 'train'"):
        data.batch(1, "held_out")


def test_path_labels_lead_to_the_node() -> None:
    data = HierarchicalBinaryVectors(5, 64)
    assert data.label_names == ("branch1", "branch2", "branch3", "branch4", "branch5")
    for node, path in enumerate(data.paths.tolist()):
        d = int(data.depths[node])
        assert path[d:] == [-1] * (5 - d)
        ones = torch.arange(64)
        for branch in path[:d]:
            ones = ones.chunk(2)[branch]
        assert torch.equal(torch.nonzero(data.prototypes[node]).flatten(), ones)
        assert data.class_names[node] == "".join("LR"[branch] for branch in path[:d])


def test_batches_carry_their_class_and_path_and_follow_the_seed() -> None:
    data = HierarchicalBinaryVectors(4, 16)
    torch.manual_seed(1)
    first, second = data.batch(64), data.batch(64)
    torch.manual_seed(1)
    again = data.batch(64)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first.x, second.x)
    assert first.x.dtype == torch.float32
    assert first.y.dtype == first.labels.dtype == torch.int64
    assert set(first.x.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(first.labels, data.paths[first.y])


@pytest.mark.parametrize("depth", [0, -1, 2.0, True])
def test_bad_depth(depth: int) -> None:
    with pytest.raises(
        ValueError, match="depth of the tree must be a whole number of at least 1, not"
    ):
        HierarchicalBinaryVectors(depth, 8)


@pytest.mark.parametrize("bits", [0, -8, 12, 4, 8.0, True])
def test_bad_bits(bits: int) -> None:
    with pytest.raises(ValueError, match=r"bits must be a positive multiple of 2\^depth = 8"):
        HierarchicalBinaryVectors(3, bits)


def test_bad_batch() -> None:
    data = HierarchicalBinaryVectors(3, 8)
    with pytest.raises(
        ValueError, match="unknown split 'test': this data set has 'train' and 'held_out'"
    ):
        data.batch(4, "test")
    for n in (0, -1, 2.5):
        with pytest.raises(ValueError, match="must be a positive whole number"):
            data.batch(n)  # type: ignore[arg-type]
