"""The tree, its prototypes, probabilities, hold-outs and exemplars, each against its definition."""

from __future__ import annotations

import math

import pytest
import torch

from plot_attractors.data import DataSet, HierarchicalBinaryVectors


def ancestors(data: HierarchicalBinaryVectors, node: int) -> list[int]:
    """The classes above a node, the nearest first, by following its parents."""
    above = []
    while (node := int(data.parents[node])) >= 0:
        above.append(node)
    return above


@pytest.mark.parametrize(("depth", "bits"), [(1, 2), (2, 12), (3, 16), (6, 128)])
def test_children_halve_their_parent_and_labels_lead_to_the_node(depth: int, bits: int) -> None:
    data = HierarchicalBinaryVectors(depth, bits)
    assert isinstance(data, DataSet)
    nodes = 2 ** (depth + 1) - 2
    assert data.prototypes.shape == (nodes, bits)
    assert len(data.train_classes) + len(data.held_out_classes) == nodes
    for parent in range(-1, nodes):
        children = torch.nonzero(data.parents == parent).flatten().tolist()
        if parent >= 0 and data.depths[parent] == depth:
            assert not children
            continue
        ones = torch.ones(bits) if parent < 0 else data.prototypes[parent]
        left, right = (torch.nonzero(data.prototypes[k]).flatten() for k in children)
        assert torch.equal(torch.cat([left, right]), torch.nonzero(ones).flatten())
        assert len(left) == len(right)
        above = 0 if parent < 0 else int(data.depths[parent])
        assert data.depths[children].tolist() == [above + 1] * 2
    for node, path in enumerate(data.paths.tolist()):
        d = int(data.depths[node])
        assert path[d:] == [-1] * (depth - d)
        ones = torch.arange(bits)
        for branch in path[:d]:
            ones = ones.chunk(2)[branch]
        assert torch.equal(torch.nonzero(data.prototypes[node]).flatten(), ones)
        assert data.class_names[node] == "".join("LR"[branch] for branch in path[:d])


@pytest.mark.parametrize(("depth", "bits"), [(1, 4), (3, 16), (5, 64)])
def test_probabilities_follow_the_formula_bit_by_bit(depth: int, bits: int) -> None:
    data = HierarchicalBinaryVectors(depth, bits)
    for node in range(len(data.depths)):
        line = [node, *ancestors(data, node)]
        for k in range(bits):
            nearest = next((int(data.depths[a]) for a in line if data.prototypes[a, k]), 0)
            expected = 2 ** (1 + nearest) / (1 + 2 ** (1 + int(data.depths[node])))
            assert float(data.probabilities[node, k]) == pytest.approx(expected)


def test_exemplars_have_these_probabilities_independently() -> None:
    torch.manual_seed(0)
    data = HierarchicalBinaryVectors(4, 32, hold_out=False)
    batch = data.batch(60_000)
    count = torch.bincount(batch.y).float()
    ones = torch.zeros(data.prototypes.shape).index_add_(0, batch.y, batch.x)
    p = data.probabilities
    z = (ones / count[:, None] - p) / (p * (1 - p) / count[:, None]).sqrt()
    # 960 bits: the largest of so many standard normals stays below 4.5 but for one run in 150.
    assert z.abs().max() < 4.5
    assert float(z.var()) == pytest.approx(1, abs=4 * math.sqrt(2 / z.numel()))
    share = 1 / len(data.depths)
    error = math.sqrt(share * (1 - share) / len(batch.y))
    assert ((count / len(batch.y) - share).abs() < 4 * error).all()  # classes are drawn uniformly
    r = torch.corrcoef(data.exemplars(torch.full((20_000,), 3)).T).fill_diagonal_(0)
    assert r.abs().max() < 5 / math.sqrt(20_000)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("depth", "bits"), [(3, 8), (5, 32), (6, 128)])
def test_hold_outs(depth: int, bits: int, seed: int) -> None:
    data = HierarchicalBinaryVectors(depth, bits, hold_out_seed=seed)
    chosen = data.held_out_prototypes.tolist()
    assert data.depths[chosen].tolist() == list(range(3, depth + 1))  # one a generation
    for node in chosen:
        assert not set(ancestors(data, node)) & set(chosen)  # none below another
    family = {n for n in range(len(data.depths)) if {n, *ancestors(data, n)} & set(chosen)}
    held_out, train = set(data.held_out_classes.tolist()), set(data.train_classes.tolist())
    assert held_out == family
    assert not held_out & train
    torch.manual_seed(seed)
    for split, classes in (("train", train), ("held_out", held_out)):
        assert set(data.batch(100 * len(classes), split).y.tolist()) == classes


def test_seeds_decide() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    trees = [HierarchicalBinaryVectors(hold_out_seed=seed) for seed in (0, 0, 1, 2)]
    assert torch.equal(torch.rand(4), expected)  # the global generator is left alone
    chosen = [tuple(tree.held_out_prototypes.tolist()) for tree in trees]
    assert chosen[0] == chosen[1]
    assert len(set(chosen)) == 3
    batch = trees[0].batch(64)
    assert torch.equal(batch.labels, trees[0].paths[batch.y])


@pytest.mark.parametrize(("depth", "bits"), [(0, 8), (-1, 8), (3, 0), (3, -8), (3, 12), (3, 4)])
def test_bad_trees(depth: int, bits: int) -> None:
    with pytest.raises(ValueError, match=r"bits must be a multiple of 2\^depth, not"):
        HierarchicalBinaryVectors(depth, bits)
