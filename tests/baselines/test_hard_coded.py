"""Hard-coded languages: classes are recognised, paths spelled out, or sentences random."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from plot_attractors import baselines
from plot_attractors.baselines import RecognisableVectors
from plot_attractors.data import Channels, ColouredSprites, HierarchicalBinaryVectors, read_table
from plot_attractors.data.sprites import RGB
from plot_attractors.language import Language
from plot_attractors.runs import Run, fit, registry


def table(path: Path) -> Path:
    rows = ["1,0,0,red,small", "0,1,0,red,big", "0,0,1,blue,small", "1,1,1,blue,big", "0,1,1,,big"]
    path.write_text("\n".join(["p,q,r,colour,size", *rows]))
    return path


def test_bayes_rule_recognises_nodes() -> None:
    data = HierarchicalBinaryVectors(depth=3, bits=64)
    recognise = baselines.recogniser(data)
    y = torch.arange(14).repeat_interleave(50)
    x = data.exemplars(y)
    p = data.probabilities[:, None]
    log_p = (x * p.log() + (1 - x) * (-p).log1p()).sum(-1)  # (classes, inputs)
    # or one that is as likely
    torch.testing.assert_close(log_p.gather(0, recognise(x)[None])[0], log_p.amax(0))
    assert torch.equal(recognise.values, (data.paths + 1).float())


def test_exemplars_are_recognised_and_the_rest_of_the_tree_is_the_same() -> None:
    torch.manual_seed(0)
    data, plain = RecognisableVectors(6, 128), HierarchicalBinaryVectors(6, 128)
    recognise = baselines.recogniser(data)
    batch = data.batch(2000)
    assert torch.equal(recognise(batch.x), batch.y)
    held_out = data.batch(500, "held_out")
    assert torch.equal(recognise(held_out.x), held_out.y)
    y = plain.batch(2000)
    assert (recognise(y.x) != y.y).float().mean() > 0.1  # levels 5 and 6 cannot always be told
    assert torch.equal(data.held_out_classes, plain.held_out_classes)
    # what is drawn still looks like its class
    x = data.exemplars(torch.full((4000,), 1))
    assert (x.mean(0) - data.probabilities[1]).abs().max() < 0.05


def test_a_path_is_spelled_out() -> None:
    data = RecognisableVectors(3, 32)
    program = registry.load("models", "fully_compositional")
    model = program.build(program.Config(), data)
    assert model.language == Language((2, 2, 2))
    names = {data.class_names[k]: model.language.name(s) for k, s in enumerate(model.sentences)}
    assert (names["L"], names["R"], names["LR"], names["RRL"]) == ("A", "B", "A·D", "B·D·E")
    description = model.describe(data.exemplars(torch.tensor([0, 5])), 2)
    assert [model.language.name(s) for s in description.s[:, 1]] == [names["L"], names["RR"]]
    assert torch.equal(description.z, description.s)
    assert torch.equal(model.embed(description.s), description.s)


def test_a_table_has_a_token_for_every_value(tmp_path: Path) -> None:
    data = read_table(table(tmp_path / "t.csv"), labels=("colour", "size"))
    program = registry.load("models", "fully_compositional")
    model = program.build(program.Config(), data)
    assert model.language == Language((2, 2))  # blue, red; big, small
    names = [model.language.name(s) for s in model.describe(data.x.float()).s[:, 0]]
    assert names == ["B·D", "B·C", "A·D", "A·C", "C"]  # the last one's colour is missing


def test_random_sentences_are_different_and_one_for_each_combination() -> None:
    language = Language((2, 2, 2))
    values = torch.tensor([[0.0, 1], [1, 0], [0, 1], [torch.nan, 1], [torch.nan, 1]])
    torch.manual_seed(0)
    s = baselines.random_sentences(language, values)
    assert torch.equal(s[0], s[2])
    assert torch.equal(s[3], s[4])
    assert len(s.unique(dim=0)) == 3
    with pytest.raises(IndexError):
        baselines.random_sentences(Language((2,)), values)
    # each sentence is as likely as another
    counts = sum(baselines.random_sentences(Language((2, 2)), values).sum(0) for _ in range(500))
    assert counts.min() / counts.max() > 0.85


def test_a_run_is_read_back_with_the_sentences_that_were_dealt(tmp_path: Path) -> None:
    run, other = (
        Run(fit("not_compositional", preset="smoke", seed=seed, out=tmp_path / str(seed)))
        for seed in (3, 4)
    )
    assert len(run.model.sentences.unique(dim=0)) == 14
    assert not torch.equal(run.model.sentences, other.model.sentences)
    assert run.metrics()["sentences_in_use"].item() == len(run.data.train_classes)


def test_sprites_are_recognised_and_spelled_out() -> None:
    data = ColouredSprites()
    program = registry.load("models", "fully_compositional")
    model = program.build(program.Config(), data)
    assert model.language.groups == (2, 2, 2, 3, 6, 4, 4)  # the paper's seven features
    described = Channels(data.features).features  # by `composition`, whose ceiling this is
    assert [f.name for f in model.recognise.features] == [f.name for f in described]
    torch.manual_seed(0)
    for split in data.splits:
        batch = data.batch(300, split)
        values = model.recognise.values[model.recognise(batch.x)]
        truth = torch.cat([batch.labels[:, 1:3], batch.labels[:, 3:] // 8], -1)
        assert (values[:, 3:] == truth).all()
        same = (values[:, :3] == RGB[batch.labels[:, 0]]).all(-1)
        assert same.float().mean() > 0.9  # 3 % look like another colour
        s = model.describe(batch.x, 2).s
        assert (s.sum(-1) == 7).all()
        told = s[:, 0].split(model.language.groups, -1)
        assert torch.equal(torch.stack([part.argmax(-1) for part in told], -1), values.long())
