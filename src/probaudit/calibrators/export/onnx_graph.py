"""ONNX graphs written as arithmetic: each operation on a tensor adds a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


class Graph:
    """The nodes and constants of a graph under construction."""

    def __init__(self, onnx: Any) -> None:
        self.helper, self._numpy_helper = onnx.helper, onnx.numpy_helper
        self.nodes: list[Any] = []
        self.constants: dict[tuple[str, tuple[int, ...], bytes], Any] = {}
        self.inputs: list[Any] = []
        self.good: list[Tensor] = []  # [n, 1] each: whether a row is valid

    def input(self, name: str, dtype: np.dtype, *columns: int) -> Tensor:
        kind = self.helper.np_dtype_to_tensor_dtype(
            np.dtype(object) if dtype.kind == "U" else dtype
        )
        self.inputs.append(self.helper.make_tensor_value_info(name, kind, ["n", *columns]))
        return Tensor(self, name)

    def node(self, kind: str, *inputs: Any, name: str | None = None, **attributes: Any) -> Tensor:
        """One operation on tensors and constants."""
        name = f"t{len(self.nodes)}" if name is None else name
        self.nodes.append(
            self.helper.make_node(
                kind, [self._name(value) for value in inputs], [name], **attributes
            )
        )
        return Tensor(self, name)

    def _name(self, value: Any) -> str:
        if isinstance(value, Tensor):
            return value.name
        array = np.asarray(value, object if isinstance(value, str) else None)
        key = (
            array.dtype.str,
            array.shape,
            repr(array.tolist()).encode() if array.dtype == object else array.tobytes(),
        )
        if key not in self.constants:
            self.constants[key] = self._numpy_helper.from_array(array, f"c{len(self.constants)}")
        return str(self.constants[key].name)


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value in a graph, with the arithmetic of arrays."""

    graph: Graph
    name: str

    def __add__(self, other: Any) -> Tensor:
        return self.graph.node("Add", self, other)

    def __sub__(self, other: Any) -> Tensor:
        return self.graph.node("Sub", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return self.graph.node("Sub", other, self)

    def __mul__(self, other: Any) -> Tensor:
        return self.graph.node("Mul", self, other)

    def __truediv__(self, other: Any) -> Tensor:
        return self.graph.node("Div", self, other)

    def __neg__(self) -> Tensor:
        return self.graph.node("Neg", self)

    def __abs__(self) -> Tensor:
        return self.graph.node("Abs", self)

    def __gt__(self, other: Any) -> Tensor:
        return self.graph.node("Greater", self, other)

    def __ge__(self, other: Any) -> Tensor:
        return self.graph.node("GreaterOrEqual", self, other)

    def __le__(self, other: Any) -> Tensor:
        return self.graph.node("LessOrEqual", self, other)

    def __and__(self, other: Any) -> Tensor:
        return self.graph.node("And", self, other)

    def equals(self, other: Any) -> Tensor:
        return self.graph.node("Equal", self, other)

    def exp(self) -> Tensor:
        return self.graph.node("Exp", self)

    def log(self) -> Tensor:
        return self.graph.node("Log", self)

    def least(self, other: Any) -> Tensor:
        return self.graph.node("Min", self, other)

    def largest(self, other: Any) -> Tensor:
        return self.graph.node("Max", self, other)

    def where(self, yes: Any, no: Any) -> Tensor:
        return self.graph.node("Where", self, yes, no)

    def at(self, places: Any, axis: int = 0) -> Tensor:
        return self.graph.node("Gather", self, places, axis=axis)

    def columns(self, places: Sequence[int] | np.ndarray) -> Tensor:
        return self.at(np.asarray(places, np.int64), axis=1)

    def numbers(self) -> Tensor:
        """1 for true and 0 for false."""
        return self.graph.node(
            "Cast", self, to=self.graph.helper.np_dtype_to_tensor_dtype(np.dtype(np.float64))
        )

    def total(self) -> Tensor:
        """The sum of a row."""
        return self.graph.node("ReduceSum", self, np.array([1]), keepdims=1)

    def normalised(self) -> Tensor:
        return self / self.total()

    def top(self) -> Tensor:
        """The largest of a row."""
        return self.graph.node("ReduceMax", self, np.array([1]), keepdims=1)

    def argmax(self) -> Tensor:
        """The first column of a row's largest value."""
        return self.graph.node("ArgMax", self, axis=1, keepdims=1)

    def softmax(self) -> Tensor:
        return self.graph.node("Softmax", self, axis=1)

    def log_softmax(self) -> Tensor:
        return self.graph.node("LogSoftmax", self, axis=1)


def log_sum_exp(x: Tensor) -> Tensor:
    top = x.top()
    return top + (x - top).exp().total().log()


def expit(u: Tensor) -> Tensor:
    """1 / (1 + e^-u), precise where it is small: `Sigmoid` is not."""
    return u.least(0.0).exp() / ((-abs(u)).exp() + 1.0)
