"""Mutations: small changes to a source, each of which a test should notice.

A mutation replaces one span of the text and keeps every line where it is, so that code which is not mutated is the code that
was compiled before.
"""

import ast
import hashlib
from collections.abc import Iterator
from typing import NamedTuple


class Mutation(NamedTuple):
    """One span of a file, and what stands there instead."""

    path: str
    line: int
    start: int
    end: int
    old: str
    new: str
    compiled: bool
    """Whether it is in code that kernels are made of, which then have to be compiled again."""

    def applied(self, source: str) -> str:
        """The source with this mutation in it."""
        return source[: self.start] + self.new + "\n" * self.old.count("\n") + source[self.end :]

    def before_and_after(self, source: str) -> tuple[str, str]:
        """The lines that differ, as they were and as they are."""
        first, last = source.rfind("\n", 0, self.start) + 1, source.find("\n", self.end)
        rest = source[self.end : last]
        was, new = source[first:last], source[first : self.start] + self.new + rest
        return " ".join(was.split()), " ".join(new.split())

    def name(self, source: str) -> str:
        """The same name as long as the file says the same."""
        digest = hashlib.blake2b(source.encode(), digest_size=8)
        digest.update(f"{self.path} {self.start} {self.end} {self.new}".encode())
        return digest.hexdigest()


_COMPARED: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Lt: ("<=", ">"),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<"),
    ast.GtE: (">", "<"),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
}
_OPERATED: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
    ast.BitOr: ("|", "&"),
    ast.BitAnd: ("&", "|"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
_CALLED = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list", "abs": "float"}
_COMPILERS = {"kernel", "scan_kernel", "inlined", "intrinsic"}
_HINTS = {
    "prefetch",
    "_ask_for_rows",
    "_ask_for_items",
}  # what only asks memory earlier changes nothing that a test could see
_LOGGED = {"debug", "info", "warning", "error", "exception"}


def mutations_of(path: str, source: str) -> list[Mutation]:
    """All mutations of a file, in the order of its text. What only speaks to people or to the type checker is left alone."""
    return sorted(_Finder(path, source).found())


class _Finder:
    """A walk through one file."""

    def __init__(self, path: str, source: str) -> None:
        self._path, self._source, self._tree = path, source, ast.parse(source)
        starts = [0]
        for line in source.split("\n"):
            starts.append(starts[-1] + len(line) + 1)
        self._starts, self._lines = starts, source.split("\n")
        self._inside_kernel = False

    def found(self) -> Iterator[Mutation]:
        # A number at the top of a file that has kernels may be a part of them.
        yield from self._body(self._tree.body, any(_decorated(node) for node in ast.walk(self._tree)))

    def _place(self, line: int, bytes_before: int) -> int:
        """Where a place of the tree is in the text: the tree counts in bytes of UTF-8."""
        text = self._lines[line - 1].encode()[:bytes_before].decode()
        return self._starts[line - 1] + len(text)

    def _span(self, node: ast.AST) -> tuple[int, int]:
        start = self._place(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        return start, self._place(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def _change(self, start: int, end: int, new: str, compiled: bool) -> Mutation:
        line = self._source.count("\n", 0, start) + 1
        return Mutation(self._path, line, start, end, self._source[start:end], new, compiled)

    def _between(self, left: ast.AST, right: ast.AST, old: str, new: str, compiled: bool) -> Iterator[Mutation]:
        """An operator between two operands, whatever brackets stand there too."""
        start, end = self._span(left)[1], self._span(right)[0]
        at = self._source.find(old, start, end)
        if at >= 0:
            yield self._change(at, at + len(old), new, compiled)

    # Statements

    def _statement(self, node: ast.stmt, compiled: bool) -> Iterator[Mutation]:
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Assert | ast.Global | ast.Nonlocal | ast.Pass):
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name in _HINTS:
                return
            outer, self._inside_kernel = self._inside_kernel, self._inside_kernel or _decorated(node)
            for default in [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]:
                yield from self._expression(default, self._inside_kernel)
            yield from self._body(node.body, self._inside_kernel)
            self._inside_kernel = outer
            return
        if isinstance(node, ast.ClassDef):
            yield from self._body(node.body, compiled)
            return
        if isinstance(node, ast.Raise):
            yield self._gone(node, compiled)  # a check that is not made; what its error says is for people
            return
        if isinstance(node, ast.Expr):
            yield from self._called(node, compiled)
            return
        if isinstance(node, ast.AnnAssign):
            if node.value is not None:
                yield from self._expression(node.value, compiled)
            return
        yield from self._whole(node, compiled)
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr) and name not in ("target", "targets"):
                yield from self._expression(value, compiled)
        for name in ("body", "orelse", "finalbody"):
            yield from self._body(getattr(node, name, []), compiled)
        for handler in getattr(node, "handlers", []):
            yield from self._body(handler.body, compiled)
        for case in getattr(node, "cases", []):
            yield from self._body(case.body, compiled)

    def _body(self, body: list[ast.stmt], compiled: bool) -> Iterator[Mutation]:
        for node in body:
            yield from self._statement(node, compiled)

    def _gone(self, node: ast.stmt, compiled: bool) -> Mutation:
        return self._change(*self._span(node), "pass", compiled)

    def _called(self, node: ast.Expr, compiled: bool) -> Iterator[Mutation]:
        if isinstance(node.value, ast.Constant):  # a docstring
            return
        if isinstance(node.value, ast.Call):
            called = node.value.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in _HINTS or (name in _LOGGED and isinstance(called, ast.Attribute)):
                return
        if not isinstance(node.value, ast.Yield | ast.YieldFrom):
            yield self._gone(node, compiled)
        yield from self._expression(node.value, compiled)

    def _whole(self, node: ast.stmt, compiled: bool) -> Iterator[Mutation]:
        """Changes to a statement as a whole."""
        if isinstance(node, ast.If | ast.While):
            start, end = self._span(node.test)
            yield self._change(start, end, f"not ({self._source[start:end]})".replace("\n", " "), compiled)
        elif isinstance(node, ast.Continue | ast.Break):
            new = "break" if isinstance(node, ast.Continue) else "continue"
            yield self._change(*self._span(node), new, compiled)
        elif isinstance(node, ast.AugAssign):
            yield self._gone(node, compiled)
            old, new = _OPERATED.get(type(node.op), ("", ""))
            if old:
                yield from self._between(node.target, node.value, f"{old}=", f"{new}=", compiled)
        elif isinstance(node, ast.Assign):
            if all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
                yield self._gone(node, compiled)
        elif isinstance(node, ast.Delete):
            yield self._gone(node, compiled)

    # Expressions

    def _expression(self, node: ast.expr, compiled: bool) -> Iterator[Mutation]:
        if isinstance(node, ast.JoinedStr | ast.Name):
            return
        yield from self._operator(node, compiled)
        for name, value in ast.iter_fields(node):
            for own in value if isinstance(value, list) else [value]:
                if isinstance(own, ast.expr) and name != "annotation":
                    yield from self._expression(own, compiled)
                elif isinstance(own, ast.keyword):
                    yield from self._expression(own.value, compiled)
                elif isinstance(own, ast.comprehension):
                    for part in (own.iter, *own.ifs):
                        yield from self._expression(part, compiled)

    def _operator(self, node: ast.expr, compiled: bool) -> Iterator[Mutation]:
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            for op, left, right in zip(node.ops, operands, operands[1:], strict=False):
                for new in _COMPARED[type(op)]:
                    yield from self._between(left, right, _written(op), new, compiled)
        elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATED:
            old, new = _OPERATED[type(node.op)]
            yield from self._between(node.left, node.right, old, new, compiled)
        elif isinstance(node, ast.BoolOp):
            old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            for left, right in zip(node.values, node.values[1:], strict=False):
                yield from self._between(left, right, old, new, compiled)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
            start, end = self._span(node)
            yield self._change(start, self._span(node.operand)[0], "", compiled)
        elif isinstance(node, ast.IfExp):
            start, end = self._span(node.test)
            yield self._change(start, end, f"not ({self._source[start:end]})".replace("\n", " "), compiled)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLED:
            yield self._change(*self._span(node.func), _CALLED[node.func.id], compiled)
        elif isinstance(node, ast.Constant):
            for new in _other_constants(node.value):
                yield self._change(*self._span(node), new, compiled)


def _other_constants(value: object) -> list[str]:
    if isinstance(value, bool):
        return [str(not value)]
    if isinstance(value, int):
        return [str(value + 1), str(value - 1)] if value > 0 else ["1"]
    if isinstance(value, float):
        return [repr(value * 2), repr(value / 2)] if value else ["1.0"]
    return []


def _decorated(node: ast.AST) -> bool:
    """Whether a function becomes machine code."""
    return any(getattr(own, "id", None) in _COMPILERS for own in getattr(node, "decorator_list", []))


def _written(op: ast.cmpop) -> str:
    return ast.unparse(ast.Compare(ast.Name("a"), [op], [ast.Name("b")]))[2:-2]


def is_python(source: str) -> bool:
    """Whether a source can be read at all."""
    try:
        compile(source, "mutated", "exec")
    except (SyntaxError, ValueError):
        return False
    return True
