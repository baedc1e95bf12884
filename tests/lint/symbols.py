# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""lint.symbols: the libraries define no name outside namespace parley, so that linking them collides with nothing. The functions of capture/engine/parley_engine.h, for the plugin, begin with its name; drivers/libraries defines rdma-core's, hidden.

`symbols.py LIBRARY...` reads their strong external symbols (weak ones come from other people's headers);
`symbols.py --self-test CONTROL` proves that a library with global names is found out. There is no C ABI yet: when there is
one, its checked-in list of names is compared here.
"""
import re
import subprocess
import sys

# Functions, static members, type information, tables and thunks of namespace parley, as the Itanium C++ ABI writes them.
OURS = re.compile(r"_Z(Z|GV|T[IVSTC]|T[hv]n?\d+_(n?\d+_)?)*N[KVrRO]*6parley|parley_engine_")
FORWARDED = re.compile(r"_?(ibv|rdma|umad)_")



def defined(library):
    command = ["readelf", "--wide", "--syms", library]
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        fields = line.split()  # number, value, size, type, binding, visibility, section, name
        if len(fields) == 8 and fields[4] == "GLOBAL" and fields[6] != "UND":
            if not (fields[5] == "HIDDEN" and FORWARDED.match(fields[7])):
                yield fields[7]


def check(*libraries):
    return [f"{library.rsplit('/', 1)[-1]}: {symbol} is outside namespace parley"
            for library in libraries for symbol in defined(library) if not OURS.match(symbol)]


def main():
    if sys.argv[1:2] == ["--self-test"]:
        if not check(sys.argv[2]):
            raise AssertionError("the control defines global names and nobody noticed")
        print("the lint finds the global names of the control")
        return 0
    findings = check(*sys.argv[1:])
    print("\n".join(findings + [f"{len(findings)} finding(s) in {len(sys.argv) - 1} libraries"]))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
