"""The attractor model: the parts of Table 1, the reward, and the Pyro programs made of them."""
