"""Whether a setting changes the model that a program builds: one that a replaced part ignores does
not, and is refused.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

__all__ = ["SameDraws", "alike", "refuse_ignored"]


class SameDraws(TorchFunctionMode):
    """Every random tensor depends on its own size and distribution alone, and not on what was drawn
    before, so that two models differ by what they are made of.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        torch.default_generator.manual_seed(0)
        return func(*args, **(kwargs or {}))


def refuse_ignored(program: Any, config: Any, data: Any, without: Mapping[str, Any]) -> None:
    """Refuse a setting without which `program.build` makes the same model.

    `without` are the Configs without one setting each, by its name. The generators of random
    numbers are left alone.
    """
    if not without:
        return
    with torch.random.fork_rng(devices=[]), SameDraws():
        model = program.build(config, data)
        for name, other in without.items():
            try:
                before = program.build(other, data)
            except Exception:  # what cannot be built without it needs it
                continue
            if alike(model, before):
                raise ValueError(
                    f"the setting {name!r} has no effect here: {program.__file__} builds the same "
                    "model without it, as where the part that it belongs to was replaced"
                )


def alike(a: Any, b: Any) -> bool:
    """Whether two objects hold the same, all the way down: tensors and their values, the cells of
    closures. What cannot be compared is not alike; modules that are no parts of two models any
    more, as a reward or a chain's reversal may hold them after a part was replaced, always are.
    """
    seen = set[tuple[int, int]]()
    models = [model for model in (a, b) if isinstance(model, torch.nn.Module)]
    parts = {id(part) for model in models for part in model.modules()}

    def same(a: Any, b: Any) -> bool:
        if a is b or (id(a), id(b)) in seen:
            return True
        if type(a) is not type(b):
            return False
        if models and isinstance(a, torch.nn.Module) and not parts & {id(a), id(b)}:
            return True
        seen.add((id(a), id(b)))
        if isinstance(a, torch.Tensor):
            return a.shape == b.shape and a.dtype == b.dtype and bool(torch.equal(a, b))
        if isinstance(a, Mapping):
            return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
        if isinstance(a, tuple | list):
            return len(a) == len(b) and all(map(same, a, b))
        if isinstance(a, types.MethodType):
            return same(a.__func__, b.__func__) and same(a.__self__, b.__self__)
        if isinstance(a, functools.partial):
            return same((a.func, a.args, a.keywords), (b.func, b.args, b.keywords))
        if isinstance(a, types.FunctionType):
            return a.__code__ is b.__code__ and all(
                same(getattr(a, part), getattr(b, part))
                for part in ("__closure__", "__defaults__", "__kwdefaults__")
            )
        if isinstance(a, types.CellType):
            return same(a.cell_contents, b.cell_contents)
        if isinstance(a, weakref.ReferenceType):  # as recurrent layers have of their weights
            return same(a(), b())
        return same(vars(a), vars(b)) if hasattr(a, "__dict__") else bool(a == b)

    return same(a, b)
