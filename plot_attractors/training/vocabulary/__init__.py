"""How tokens get their embeddings: along one latent axis each, and from there, if they may, in any
direction.
"""
