"""Training: schedules of phases, the M-step, the sleep phase, and how tokens get their
embeddings.
"""
