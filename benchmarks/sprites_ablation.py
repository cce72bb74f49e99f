"""What of the language of sprites is learned, and what is built in? Arms, each with one part less,
and arms whose language is changed by EM through the dynamics.

    python benchmarks/sprites_ablation.py runs/ablation 60 "default" "uniform P(s)"

A folder, a seed and arms (all, if none is named); appends a row an arm to runs/ablation/arms.csv.
Arms of a seed share all phases before tokens learn alone, where these do not differ; the
checkpoint of that moment is kept in the folder. Languages are judged by their posterior before the
last E-step: s ∝ R(s; x) and z ~ N(ẑ_s, ε²), exactly where sentences factor, else by 64 annealed
candidates. So dynamics take part in two arms only. In one, three cycles of an E-step and an M-step
follow, labels being sentences of trajectories; in the other the same M-updates, with labels drawn
∝ P(s | x)^16. Columns: topographic similarity; what two decoders tell of
features from a sentence, and from a composed one, in every split; mean log Z, and the entropy of
P(s | x) where it is exact (nats); tokens in use, and in a sentence.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pandas as pd
import torch
from shared import among, arguments, parser
from torch import Tensor

from plot_attractors import training
from plot_attractors.evaluation import composition, corpora, decodability, probes
from plot_attractors.evaluation.metrics.similarity import topographic_similarity
from plot_attractors.evaluation.sampling import exact_states
from plot_attractors.language import usage
from plot_attractors.model.attractor import AttractorModel, Description
from plot_attractors.runs import Run, registry, settings
from plot_attractors.runs.loop import denormals_are_zero

Settings = dict[str, Any]
UNIFORM: Settings = {"language.length_cost": 0.0}
ENGINE: Settings = {"inference": "gflownet_em"}
CYCLES: Settings = {"cycles": 3, "e_updates": 3000, "m_updates": 500}
ANY: Settings = {  # a third of the M-updates of the others, without vocabulary phases
    **ENGINE, **UNIFORM, "token_axes": False, "vocabulary": "none", "warm_up": 1250,
}  # fmt: skip
ARMS: dict[str, Settings] = {
    "default": {},
    "uniform P(s)": UNIFORM,
    "no phase of tokens alone": {"vocabulary.updates": 0},
    "tokens in any direction": ANY,
    "the paper's model": {**ANY, "latent": 32},
    "default, by the reward alone": ENGINE,
    "uniform P(s), by the reward alone": {**UNIFORM, **ENGINE},
    "cycles through the dynamics": CYCLES,
    "as many M-updates without dynamics": {**CYCLES, "dynamics": False},
}
CANDIDATES = training.Sampling(64, 15, 2)
INPUTS = 2000  # whose sentences are judged
PRESET, LEARNING = "full", probes.Training()
SMALL = {
    "PRESET": "smoke", "CANDIDATES": training.Sampling(8, 3, 1), "INPUTS": 64,
    "LEARNING": probes.Training(64, 2), "ARMS": {
        "default": {}, "tokens in any direction": {**ANY, "warm_up": 5},
        "as many M-updates without dynamics": {"dynamics": False},
    },
}  # fmt: skip


@dataclass(eq=False)
class Trained:
    """What analyses ask of a run."""

    model: AttractorModel
    data: Any
    seed: int


def train(arm: str, seed: int, folder: Path) -> Trained:
    """The arm's model where its last E-step would begin."""
    changed = dict(ARMS[arm])
    dynamics = changed.pop("dynamics", True)
    program = registry.load("models", "dsprites")
    name = changed.pop("inference", "wake_sleep_em")
    inference = registry.load("inference", name)
    parts = {"model": program.Config, "inference": inference.Config}
    presets = settings.presets_of(program, inference)
    configs = settings.resolve(parts, presets, PRESET, changed)
    torch.manual_seed(seed)
    data = program.load_data(configs["model"])
    model = program.build(configs["model"], data)
    schedule = inference.build(model, data, configs["inference"])
    cycles = configs["inference"].cycles
    if not dynamics:
        schedule = without_dynamics(schedule, model, data, configs["inference"])
    kept = folder / f"{name}-{seed}.pt"  # of the phases that arms with token axes share
    shares = configs["model"].token_axes
    if shares and kept.exists():
        state = torch.load(kept, weights_only=True)
        model.load_state_dict(state["model"])
        schedule.state["phi"].load_state_dict(state["phi"])
        schedule.position = state["position"]
    start = sum(p.updates for p in schedule.schedule if p.name in ("pretrain", "warm_up"))
    last = {("policy", 0), ("e_step", cycles)}
    while (schedule.phase.name, schedule.phase.cycle) not in last:
        if shares and schedule.position == start:
            if not kept.exists():
                phi = schedule.state["phi"].state_dict()
                own = {"model": model.state_dict(), "phi": phi, "position": start}
                torch.save(own, kept)
            torch.manual_seed(seed)
        schedule.step()
        if schedule.position % 500 == 0:
            print(arm, seed, f"{schedule.position}/{schedule.total}", flush=True)
    return Trained(model.eval(), data, seed)


def without_dynamics(
    schedule: training.Schedule, model: AttractorModel, data: Any, config: Any
) -> training.Schedule:
    """Without E-steps but the last; M-steps draw their labels from the posterior."""
    inputs = training.input_source(data, model, config.m_step.batch)
    m, sentences = training.MStep(model, inputs, config.m_step), training.ExactSentences(model)
    m.optimizer = schedule.state["phi"]
    phases = []
    for phase in schedule.schedule:
        if phase.name == "m_step":
            phase = replace(phase, update=lambda _: m.sharpened(sentences), begin=None)
        if phase.name != "e_step" or phase.cycle == config.cycles:
            phases.append(phase)
    return training.Schedule(model, phases, schedule.state)


def by_posterior(model: AttractorModel, sampled: training.SampledSentences) -> None:
    """Sentences of the model are draws of its posterior from now on."""

    @torch.no_grad()
    def describe(x: Tensor, draws: int = 1) -> Description:
        e = model.encode(x)
        if model.posterior.factored:
            return Description(*exact_states(model, e, draws))
        population = sampled.population(e.distribution).s
        chosen = torch.randint(len(population), (len(x), draws))
        s = population[chosen, torch.arange(len(x))[:, None]]
        return Description(model.terminal_kernel(s).sample(), s)

    model.describe = describe  # type: ignore[method-assign]


@torch.no_grad()
def judged(of: Trained) -> dict[str, float]:
    """A row of the table."""
    model, run = of.model, cast(Run, of)
    _, data = probes.require_described(run)
    sampled = training.SampledSentences(model, model.discretizer, CANDIDATES)
    by_posterior(model, sampled)
    torch.manual_seed(of.seed)
    corpus = corpora.corpus(run.model, data, of.data.batch(INPUTS))
    rho = topographic_similarity(corpus.tokens, corpus.meaning, corpus.kinds)
    found = {"similarity": rho.value, **usage(model.language, torch.tensor(corpus.sentences))}
    found["tokens"] = float(corpus.tokens.sum(-1).mean())
    q = model.encode(of.data.batch(512).x).distribution
    if model.posterior.factored:
        posterior = model.posterior(q)
        s = posterior.sample(torch.Size([16]))
        log_p = posterior.log_prob(s)
        found["entropy"], log_z = float(-log_p.mean()), model.reward(q, None, s) - log_p
    else:
        log_z = sampled.population(q, from_prior=True).log_z
    found["log_z"] = float(log_z.mean())
    told = decodability.measure(run, INPUTS, 2, LEARNING)["summary.csv"]
    made = composition.measure(run, INPUTS, 2, 4, 0, LEARNING)["summary.csv"]
    for name, table, source in (("", told, "sentence"), ("composed, ", made, "composed")):
        part: Any = table[table.source == source].groupby(["split", "feature"]).value.mean()
        found |= {f"{name}{split}, {feature}": v for (split, feature), v in part.items()}
    return found


def main() -> None:
    options = parser(__doc__)
    options.add_argument("folder", nargs="?", type=Path)
    options.add_argument("seed", nargs="?", type=int, default=0)
    options.add_argument("arms", nargs="*", type=among(ARMS), help="; ".join(ARMS))
    given = arguments(globals(), options)
    folder, seed = given.folder, given.seed
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "arms.csv"
    for arm in given.arms or ARMS:
        start = time.process_time()
        with denormals_are_zero():  # as in `fit`
            trained = train(arm, seed, folder)
        minutes = (time.process_time() - start) / 60
        row = {"arm": arm, "seed": seed, "minutes": minutes, **judged(trained)}
        rows = [pd.read_csv(file)] if file.exists() else []
        pd.concat([*rows, pd.DataFrame([row])]).to_csv(file, index=False, float_format="%.4g")
        print(pd.Series(row).to_string(), flush=True)


if __name__ == "__main__":
    main()
