"""How tokens get their embeddings where each moves the sentence embedding along one latent axis."""
