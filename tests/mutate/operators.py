# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Finds the mutants of a source file with libclang."""
import re
import sys

from mutants import Mutant, Site, describe

try:
    from clang import cindex
except ModuleNotFoundError:  # another Python than the system's, which has the package
    sys.path.append("/usr/lib/python3/dist-packages")
    from clang import cindex
from clang.cindex import CursorKind as K, TypeKind as T

INSTEAD = {
    "==": ("!=",), "!=": ("==",), "<": ("<=", ">"), "<=": ("<",), ">": (">=", "<"), ">=": (">",),
    "&&": ("||",), "||": ("&&",), "+": ("-",), "-": ("+",), "*": ("+",), "/": ("*",), "%": ("/",),
    "&": ("|",), "|": ("&",), "<<": (">>",), ">>": ("<<",),
    "+=": ("-=",), "-=": ("+=",), "|=": ("&=",), "&=": ("|=",),
}
COMPARISONS = {"==", "!=", "<", "<=", ">", ">="}
# Names that stand for the two sides of something, or for its two ends.
SIDES = [("initiator", "responder"), ("tx", "rx"), ("ord", "ird"), ("local", "peer"), ("local", "remote"),
         ("send", "recv"), ("sends", "receives"), ("source", "sink"), ("first", "last"), ("begin", "end"),
         ("front", "back"), ("head", "tail"), ("min", "max"), ("request", "reply"), ("sent", "received")]
INTEGERS = {T.INT, T.UINT, T.LONG, T.ULONG, T.LONGLONG, T.ULONGLONG, T.SHORT, T.USHORT, T.UCHAR, T.SCHAR, T.CHAR_S}
FUNCTIONS = {K.FUNCTION_DECL, K.CXX_METHOD, K.CONSTRUCTOR, K.DESTRUCTOR, K.FUNCTION_TEMPLATE, K.CONVERSION_FUNCTION}
# What may stand where a statement stands.
BODIES = {K.COMPOUND_STMT, K.CASE_STMT, K.DEFAULT_STMT}
LITERAL = re.compile(r"(0x[0-9A-Fa-f']+|[0-9][0-9']*)([uUlLzZ]*)")


class SourceError(Exception):
    pass


def other_side(name):
    """rx_markers for tx_markers, responder for initiator; one each."""
    words = name.split("_")
    for a, b in SIDES:
        for x, y in ((a, b), (b, a)):
            if x in words:
                yield "_".join(y if w == x else w for w in words)


class Finder:
    def __init__(self, path, file, arguments):
        self.file = file
        self.octets = path.read_bytes()
        unit = cindex.Index.create().parse(str(path), args=arguments)
        fatal = [d for d in unit.diagnostics if d.severity >= cindex.Diagnostic.Fatal]
        if fatal:
            raise SourceError(f"{file}: libclang cannot read it: {fatal[0].spelling}")
        self.includes = {i.include.name for i in unit.get_includes()}
        self.found = []
        self.function = ""
        self.alone = self.constant = False
        for cursor in unit.cursor.get_children():
            if cursor.location.file and cursor.location.file.name == str(path):
                self.visit(cursor, None)

    # -- places in the source
    def span(self, cursor):
        return cursor.extent.start.offset, cursor.extent.end.offset

    def text(self, begin, end):
        return self.octets[begin:end].decode(errors="replace")

    def add(self, operator, line, *sites):
        self.found.append(Mutant(self.file, line, self.function, operator, sites, self.alone, self.constant))

    def instead(self, operator, cursor, *parts):
        self.add(operator, cursor.extent.start.line, Site(*self.span(cursor), parts))

    # -- the walk
    def visit(self, cursor, parent):
        kind, saved = cursor.kind, (self.function, self.alone, self.constant)
        if kind in FUNCTIONS:
            self.function = cursor.spelling
            head = self.text(*self.span(cursor)).split(cursor.spelling)[0]
            self.constant = self.constant or re.search(r"\bconst(expr|eval)\b", head) is not None
        elif kind == K.STATIC_ASSERT or kind == K.ENUM_DECL:
            return
        elif kind == K.VAR_DECL:
            begin, end = self.span(cursor)
            head = self.text(begin, end).split(cursor.spelling)[0] if cursor.spelling else ""
            fixed = cursor.type.is_const_qualified()
            self.alone = self.alone or re.search(r"\bconst(expr|init)\b", head) is not None \
                or (fixed and parent is None)
            self.constant = self.constant or fixed
        children = list(cursor.get_children())
        self.operators(cursor, kind, children, parent)
        if kind == K.CASE_STMT:
            children = children[1:]  # a label must be a constant
        for child in children:
            self.visit(child, cursor)
        self.function, self.alone, self.constant = saved

    def operators(self, cursor, kind, children, parent):
        if kind in (K.BINARY_OPERATOR, K.COMPOUND_ASSIGNMENT_OPERATOR) and len(children) == 2:
            self.binary(cursor, *children)
        elif kind == K.CALL_EXPR:
            self.call(cursor)
        elif kind == K.INTEGER_LITERAL:
            self.literal(cursor)
        elif kind == K.RETURN_STMT and children:
            self.returned(children[0])
        elif kind in (K.IF_STMT, K.WHILE_STMT) and children:
            self.condition(children)
        elif kind in (K.DECL_REF_EXPR, K.MEMBER_REF_EXPR):
            self.side(cursor)
        elif kind == K.UNARY_OPERATOR and children:
            self.unary(cursor, children[0])
        elif kind == K.INIT_LIST_EXPR:
            self.swap("swapped fields", children)
        if kind in BODIES or (kind in (K.IF_STMT, K.WHILE_STMT, K.FOR_STMT, K.CXX_FOR_RANGE_STMT) and children):
            self.statements(cursor, kind, children)

    def binary(self, cursor, left, right):
        (begin, a), (b, end) = self.span(left), self.span(right)
        operator = self.text(a, b).strip()
        if operator not in INSTEAD or (begin, end) != self.span(cursor):
            return
        pointers = [c.type.get_canonical().kind == T.POINTER for c in (left, right)]
        if (operator in "+*/%&|" and any(pointers)) or (operator == "-" and all(pointers)):
            return
        for other in INSTEAD[operator]:
            if other in ("||", "&&"):
                self.instead("operator", cursor, "(", (begin, a), f") {other} (", (b, end), ")")
                for name, side in (("left", (begin, a)), ("right", (b, end))):
                    self.instead(f"only the {name} operand", cursor, "static_cast<bool>(", side, ")")
            else:
                self.instead("operator", cursor, (begin, a), f" {other} ", (b, end))

    def call(self, cursor):
        arguments = [a for a in cursor.get_arguments() if a is not None]
        name = cursor.spelling
        if name.startswith("operator") and len(arguments) == 2 and name[8:] in COMPARISONS:
            return self.binary(cursor, *arguments)
        if name in ("min", "max") and len(arguments) == 2:
            begin, end = self.span(cursor)
            at = self.text(begin, end).find(f"std::{name}")
            if at == 0:
                self.instead("swapped sides", cursor, "std::max" if name == "min" else "std::min", (begin + 8, end))
            return None
        return None if name.startswith("operator") else self.swap("swapped arguments", arguments)

    def swap(self, operator, arguments):
        for one, two in zip(arguments, arguments[1:]):
            (a, b), (c, d) = self.span(one), self.span(two)
            if one.type.get_canonical().spelling != two.type.get_canonical().spelling or one.kind == K.INIT_LIST_EXPR:
                continue
            if not (a < b <= c < d) or self.text(a, b) == self.text(c, d) or self.text(b, c).strip() != ",":
                continue
            if self.text(a, b).startswith((".", "{")) or self.text(c, d).startswith((".", "{")):
                continue
            self.add(operator, one.extent.start.line, Site(a, b, ((c, d),)), Site(c, d, ((a, b),)))

    def literal(self, cursor):
        text = self.text(*self.span(cursor))
        if match := LITERAL.fullmatch(text):
            value = int(match[1].replace("'", ""), 16 if match[1].lower().startswith("0x") else 10)
            more = f"0x{value + 1:x}" if match[1].lower().startswith("0x") else str(value + 1)
            self.instead("n to n + 1", cursor, more + match[2])

    def returned(self, value):
        kind, text = value.type.get_canonical().kind, self.text(*self.span(value))
        for wanted, of in (("true", kind == T.BOOL), ("false", kind == T.BOOL), ("0", kind in INTEGERS),
                           ("nullptr", kind == T.POINTER)):
            if of and text != wanted and text.strip():
                self.instead("returned constant", value, wanted)

    def condition(self, children):
        condition = next((c for c in children if c.kind.is_expression()), None)
        if condition is None or any(c.kind.is_declaration() for c in children[:1]):
            return  # what is declared there is the condition
        begin, end = self.span(condition)
        if self.text(begin, end).strip() in ("true", "false", ""):
            return
        if condition.type.get_canonical().kind == T.BOOL:
            self.instead("condition turned round", condition, "!(", (begin, end), ")")

    def unary(self, cursor, operand):
        (begin, end), (a, b) = self.span(cursor), self.span(operand)
        text = self.text(begin, end)
        if text.startswith("!") and b == end:
            self.instead("dropped !", cursor, "static_cast<bool>(", (a, b), ")")
        for one, two in (("++", "--"), ("--", "++")):
            if text.startswith(one) and b == end:
                self.instead("operator", cursor, two, (a, b))

    def side(self, cursor):
        declared = cursor.referenced
        name, (begin, end) = cursor.spelling, self.span(cursor)
        if declared is None or not name or not self.text(begin, end).endswith(name):
            return
        if declared.kind in (K.ENUM_CONSTANT_DECL, K.FIELD_DECL):
            brothers = declared.semantic_parent.get_children()
        elif declared.kind == K.CXX_METHOD and name in ("front", "back"):
            brothers = declared.semantic_parent.get_children()
        else:
            return
        others = {c.spelling: c for c in brothers if c.kind == declared.kind}
        own = name.rstrip("_")
        for other in other_side(own):
            other += name[len(own):]
            if other in others and others[other].type.get_canonical() == declared.type.get_canonical():
                if declared.kind == K.CXX_METHOD:
                    continue
                self.instead("swapped sides", cursor, (begin, end - len(name)), other)

    def statements(self, cursor, kind, children):
        """Calls, assignments and the like may be left out; declarations, jumps and blocks may not."""
        if kind == K.CASE_STMT:
            children = children[1:]
        elif kind not in BODIES:
            first = 0 if kind in (K.IF_STMT, K.WHILE_STMT) else len(children) - 1
            children = children[max(first, 1):]
        for child in children:
            if child.kind not in (K.CALL_EXPR, K.BINARY_OPERATOR, K.COMPOUND_ASSIGNMENT_OPERATOR, K.UNARY_OPERATOR,
                                  K.UNEXPOSED_EXPR):
                continue
            begin, end = self.span(child)
            rest = self.text(end, end + 80)
            if not rest.lstrip().startswith(";") or begin == end:
                continue  # a macro, or no statement
            end += rest.index(";") + 1
            self.add("dropped statement", child.extent.start.line, Site(begin, end, (), True))


def find(path, file, arguments):
    """(the octets of the source, its mutants in their order)."""
    return _of(Finder(path, file, arguments))


def find_with_includes(path, file, arguments):
    """What find() gives, and the paths of all that the source includes."""
    finder = Finder(path, file, arguments)
    return *_of(finder), sorted(finder.includes)


def _of(finder):
    seen, out = set(), []
    for mutant in finder.found:
        if not all(0 <= s.begin < s.end <= len(finder.octets) for s in mutant.sites):
            continue
        describe(finder.octets, mutant)
        places = tuple((s.begin, s.end) for s in mutant.sites)
        if mutant.before != mutant.after and (places, mutant.after) not in seen:
            seen.add((places, mutant.after))
            out.append(mutant)
    out.sort(key=lambda m: (m.line, m.sites[0].begin, m.operator, m.after))
    return finder.octets, out
