"""Topics of short documents (latent Dirichlet allocation), by GFlowNet-EM and variational EM.

    pip install scikit-learn
    python examples/topics.py --seconds 60 --seeds 0 1 2

Six topics are the rows and columns of a square of nine words (Griffiths and Steyvers 2004); 500
documents have 16 words each. Mixtures of topics are integrated out, so that the topic of a word
depends on all topics before it: z_n ~ (α + counts), a Pólya urn. Prints the distance of topics from
the true ones: total variation, mean over the best matching of both.
"""

import argparse
import time

import pyro
import torch
from pyro.distributions import Categorical, Dirichlet, OneHotCategorical
from scipy.optimize import linear_sum_assignment
from sklearn.decomposition import LatentDirichletAllocation
from torch import Tensor, nn
from torch.nn.functional import one_hot

from plot_attractors.gflownet import VarGrad

SIDE, WORDS, ALPHA = 3, 16, 0.5  # of the square; of a document; of the Dirichlet prior
TOPICS, VOCABULARY = 2 * SIDE, SIDE**2
TRUE = torch.cat([torch.eye(SIDE).repeat_interleave(SIDE, 1), torch.eye(SIDE).repeat(1, SIDE)])
TRUE = TRUE / SIDE  # (topics, words)
BATCH, PARTICLES = 64, 8


class Topics(nn.Module):
    """p(w, z) of documents (N, words), and q(z_n | w, topics of the words before)."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Parameter(0.5 * torch.randn(TOPICS, VOCABULARY))
        inputs = 2 * VOCABULARY + TOPICS + 1
        hidden = nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU()
        self.policy = nn.Sequential(*hidden, nn.Linear(64, TOPICS))

    def model(self, words: Tensor) -> None:
        topics = self.logits.softmax(-1)
        counts = torch.full((TOPICS,), ALPHA)
        with pyro.plate("documents", len(words)):
            for n in range(WORDS):
                z = pyro.sample(f"z{n}", OneHotCategorical(counts / counts.sum(-1, keepdim=True)))
                pyro.sample(f"w{n}", Categorical(z @ topics), obs=words[:, n])
                counts = counts + z

    def guide(self, words: Tensor) -> None:
        log_topics = self.logits.detach().log_softmax(-1)
        word = one_hot(words, VOCABULARY).float()
        rest = word.flip(1).cumsum(1).flip(1) - word  # words that follow
        counts = torch.zeros(len(words), TOPICS)
        with pyro.plate("documents", len(words)):
            for n in range(WORDS):
                shape = *counts.shape[:-1], -1
                seen = torch.cat([word[:, n], rest[:, n] / 4], -1).expand(shape)
                time = torch.full_like(counts[..., :1], n / WORDS)
                logits = self.policy(torch.cat([seen, counts / 4, time], -1))
                logits = logits + word[:, n] @ log_topics.T
                counts = counts + pyro.sample(f"z{n}", OneHotCategorical(logits=logits))


def gflownet_em(words: Tensor, seed: int, seconds: float) -> Tensor:
    """Topics (topics, words) after so much processor time."""
    torch.manual_seed(seed)
    topics = Topics()
    loss = VarGrad(PARTICLES, batch_plate="documents")(topics.model, topics.guide)
    rates = [
        {"params": [topics.logits], "lr": 1e-2},
        {"params": topics.policy.parameters(), "lr": 3e-3},
    ]
    optimizer, start = torch.optim.Adam(rates), time.process_time()
    while time.process_time() - start < seconds:
        optimizer.zero_grad()
        loss(words[torch.randint(len(words), (BATCH,))]).backward()
        optimizer.step()
    return topics.logits.detach().softmax(-1)


def variational_em(words: Tensor, seed: int, seconds: float) -> Tensor:
    """Blei, Ng and Jordan (2003), by scikit-learn, until it has converged."""
    fitted = LatentDirichletAllocation(
        TOPICS, doc_topic_prior=ALPHA, topic_word_prior=1.0, max_iter=1000, evaluate_every=10,
        perp_tol=1e-5, max_doc_update_iter=500, mean_change_tol=1e-5, random_state=seed,
    ).fit(one_hot(words, VOCABULARY).sum(1).numpy())  # fmt: skip
    topics = torch.from_numpy(fitted.components_).float()
    return topics / topics.sum(-1, keepdim=True)


METHODS = {"GFlowNet-EM": gflownet_em, "variational EM": variational_em}


def documents(n: int, seed: int) -> Tensor:
    torch.manual_seed(seed)
    mixture = Dirichlet(torch.full((TOPICS,), ALPHA)).sample((n, 1)).expand(-1, WORDS, -1)
    return Categorical(TRUE[Categorical(mixture).sample()]).sample()


def distance(topics: Tensor) -> float:
    variation = 0.5 * (topics[:, None] - TRUE).abs().sum(-1)
    return float(variation[linear_sum_assignment(variation)].mean())


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=60.0, help="of processor time, each")
    options.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = options.parse_args()
    pyro.enable_validation(False)
    torch.set_num_threads(1)
    print("method,seed,distance")
    for seed in given.seeds:  # with data of its own
        words = documents(500, seed)
        for name, method in METHODS.items():
            topics = method(words, seed, given.seconds)
            print(f"{name},{seed},{distance(topics):.3f}", flush=True)


if __name__ == "__main__":
    main()
