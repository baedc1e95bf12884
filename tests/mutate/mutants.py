# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""What a mutant is, and how a source is written with many of them, of which the environment chooses one."""
import dataclasses

# Constant evaluation sees the program as it is; the tests may choose another.
HEAD = """\
#ifndef PARLEY_MUTANTS
#define PARLEY_MUTANTS
#include <type_traits>
extern "C" int parley_mutant;
extern "C" unsigned char parley_mutant_reached[];
static constexpr bool parley_mutant_is(int n) {
  if (std::is_constant_evaluated()) return false;
  parley_mutant_reached[n] = 1;
  return parley_mutant == n;
}
#endif
"""


@dataclasses.dataclass(frozen=True)
class Site:
    """A piece of the source, and what stands there instead: text, and pieces of the source as (begin, end)."""
    begin: int
    end: int
    parts: tuple
    statement: bool = False  # the piece is dropped


@dataclasses.dataclass
class Mutant:
    file: str
    line: int
    function: str
    operator: str
    sites: tuple
    alone: bool = False     # the compiler evaluates it: it has a compilation of its own
    constant: bool = False  # the compiler may have evaluated it
    before: str = ""
    after: str = ""
    number: int = 0         # in a source with many
    status: str = ""
    killed_by: str = ""
    nth: int = 0            # of those with the same key

    @property
    def room(self):
        return self.file.split("/")[0]

    @property
    def key(self):
        """Survives changes of other lines."""
        return (self.file, self.function, self.operator, self.before, self.after)

    def place(self):
        return f"{self.file}:{self.line}"

    def diff(self):
        return f"-{self.before}\n+{self.after}"

    def as_json(self):
        return {"file": self.file, "line": self.line, "function": self.function, "operator": self.operator,
                "status": self.status, "killed_by": self.killed_by, "before": self.before, "after": self.after}


def _text(octets, begin, end):
    return octets[begin:end].decode()


def written_alone(octets, mutant):
    """The source with that mutant and no way back."""
    out, at = "", 0
    for site in sorted(mutant.sites, key=lambda s: s.begin):
        out += _text(octets, at, site.begin)
        out += ";" if site.statement else "".join(
            p if isinstance(p, str) else _text(octets, *p) for p in site.parts)
        at = site.end
    return out + _text(octets, at, len(octets))


def describe(octets, mutant):
    """Sets the lines that differ, as they are and as they become."""
    first, last = min(s.begin for s in mutant.sites), max(s.end for s in mutant.sites)
    begin = octets.rfind(b"\n", 0, first) + 1
    end = octets.find(b"\n", last)
    end = len(octets) if end < 0 else end
    new = written_alone(octets, mutant)
    tail = len(octets[end:].decode())
    mutant.before = " ".join(_text(octets, begin, end).split())
    mutant.after = " ".join(new[len(octets[:begin].decode()):len(new) - tail].split())


def written_together(octets, mutants):
    """The source with all of them; each has its number. No line moves."""
    sites = sorted(((site, m.number) for m in mutants for site in m.sites),
                   key=lambda s: (s[0].begin, -s[0].end, s[1]))
    return HEAD + '#line 1 "%s"\n' % mutants[0].file + _render(octets, 0, len(octets), sites)


def _render(octets, begin, end, sites):
    """[begin, end) with those of the sites that lie in it."""
    out, at, i = "", begin, 0
    while i < len(sites):
        first = sites[i][0]
        if first.begin < at or first.end > end:
            i += 1  # of what stands outside
            continue
        same = [s for s in sites[i:] if (s[0].begin, s[0].end) == (first.begin, first.end)]
        inside = [s for s in sites[i:] if s[0].begin >= first.begin and s[0].end <= first.end and s not in same]
        out += _text(octets, at, first.begin) + _choice(octets, first, same, inside)
        at = first.end
        i += len(same) + len(inside)
    return out + _text(octets, at, end)


def _choice(octets, where, same, inside):
    original = _render(octets, where.begin, where.end, inside)
    dropped = [n for site, n in same if site.statement]
    others = [(site, n) for site, n in same if not site.statement]
    for site, n in reversed(others):
        other = "".join(p if isinstance(p, str) else _render(octets, *p, inside) for p in site.parts)
        original = f"(parley_mutant_is({n}) ? ({other}) : ({original}))"
    for n in dropped:
        original = f"{{ if (!parley_mutant_is({n})) {original} }}"
    return original
