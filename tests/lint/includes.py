# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""lint.includes: which room may include which, by cmake/rooms.txt."""
import re
import sys

import common

MAY = {room: uses for room, (_, uses) in common.ROOM_TABLE.items()}
MAY["tests"] |= {"bench"}  # they test the benches' parts as well
# Headers from outside the project that the pure rooms may use: the language, formatting, and kernels for the CRC.
STANDARD = set("""algorithm any array bit bitset cassert cctype charconv chrono cinttypes climits compare concepts coroutine
    cstddef cstdint cstdlib cstring deque exception functional initializer_list iterator limits list map memory
    new numeric optional queue ratio set span stack stdexcept string string_view system_error tuple type_traits
    typeindex unordered_map unordered_set utility variant vector stdbool.h stddef.h stdint.h""".split())
LIBRARIES = re.compile(r"^(tl/expected\.hpp|fmt/(core|format|ranges)\.h)$")
TOML = re.compile(r"^toml\+\+/toml\.h$")  # sim reads scenarios that are given to it as text
# A public header that its users may leave alone, for those who have the library that it is about.
OPTIONAL = {"include/parley/asio.hpp": re.compile(r"^(boost/asio/[\w/]+\.hpp|fcntl\.h|cerrno)$"),
            "include/parley/sim_test.hpp": re.compile(r"^(gtest/gtest(-spi)?\.h|fcntl\.h|cstdio)$"),
            "include/parley/xrc_attr.h": re.compile(r"^(errno|string)\.h$"), "include/parley/xrc_verbs.h": re.compile(r"^stdlib\.h$")}
FORMATTING = {"base": {"cstdio"}}  # snprintf, and the last words of PARLEY_ASSERT; lint.purity sees what is really called
CRC_KERNELS = re.compile(r"^(isa-l\.h|isa-l/.*\.h|immintrin\.h|nmmintrin\.h|wmmintrin\.h|x86intrin\.h|cpuid\.h|arm_acle\.h)$")
# The Wireshark plugin is C under another licence: of the project it knows the facts of the wire, and the engine by its C interface.
PLUGIN = re.compile(r'"(parley(_\w+)?|parley/wire/\w+|capture/engine/parley_engine)\.h"|<((epan|wsutil|wiretap)/[\w/-]+|ws_version|config|glib|std\w+|string)\.h>')
# Its folders: each uses those before it, not those behind, neither by an include nor by a declaration of its own.
PLUGIN_FOLDERS = ("common", "neg", "mad", "ib", "rdmap", "mpa", "plugin")
PLUGIN_NAMES = re.compile(r"^(?:extern )?[a-z][\w *]*?\b((?:proto_)?parley\w*)(\([^;{}]*\)\s*[;{G]|;| = )", re.MULTILINE)
# Within a room: what is read knows no rule, and a rule does not know how its report is printed.
UPWARDS = [("capture/read/tcp/", re.compile(r"capture/(read/(?!tcp/)|rules/|report)")),
           ("capture/read/", re.compile(r"capture/(rules/|report)")), ("capture/rules/", re.compile(r"capture/report/"))]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def room_of(target):
    first = target.split("/")[0]
    return "include" if first == "parley" else first if first in MAY else None


def outside_allowed(path, room, target):
    if path.as_posix() in OPTIONAL and OPTIONAL[path.as_posix()].match(target):
        return True
    if room == "include":  # what users compile: no library that they would have to have for it
        return target in STANDARD or target == "tl/expected.hpp"
    if room not in common.PURE_ROOMS:
        return True
    return target in STANDARD or target in FORMATTING.get(room, ()) or LIBRARIES.match(target) or (room == "sim" and TOML.match(target)) or (room in ("mpa", "wire") and CRC_KERNELS.match(target))


def check_line(path, number, line):
    match = INCLUDE.match(line)
    if not match:
        return None
    quoted, target = match[1] == '"', match[2]
    room = path.parts[0]
    where = f"{path}:{number}"
    if quoted:
        other = room_of(target)
        if other is None:
            if room in ("tests", "bench") and "/" not in target:
                return None  # test support beside its user
            return f"{where}: \"{target}\" is not named from the root (\"room/file.hpp\")"
        if other not in MAY[room]:
            return f"{where}: {room} may not include {other} ({target})"
        if any(path.as_posix().startswith(folder) and above.match(target) for folder, above in UPWARDS):
            return f"{where}: {path.parent.as_posix()} may not include upwards ({target})"
        return None
    if not outside_allowed(path, room, target):
        return f"{where}: <{target}> in {room}, which is {'for users' if room == 'include' else 'pure'}"
    return None


def plugin_folder(path):
    """Its place among the plugin's folders."""
    return PLUGIN_FOLDERS.index(path.parts[1]) if path.parts[1] in PLUGIN_FOLDERS else None


def check_plugin(root):
    texts = {path: common.read(root, path) for path in common.files(root, ["dissectors"], common.SOURCE_SUFFIXES)}
    headers = {path.name: path for path in texts if path.suffix == ".h"}
    owners = {}  # of what is defined: a function has a body, a variable no `extern`
    for path, text in texts.items():
        for match in PLUGIN_NAMES.finditer(text):
            if path.suffix == ".c" and not match[0].endswith((");", "G")) and not match[0].startswith(("extern", "static")):
                owners[match[1]] = path
    findings = []
    for path, text in texts.items():
        place = plugin_folder(path)
        if place is None:
            findings.append(f"{path}:1: the Wireshark plugin has no such folder: {', '.join(PLUGIN_FOLDERS)}")
            continue

        def upwards(other):
            return other is not None and (plugin_folder(other) or 0) > place

        for number, line in enumerate(text.splitlines(), 1):
            match = INCLUDE.match(line)
            if match and not PLUGIN.search(line):
                findings.append(f"{path}:{number}: the Wireshark plugin may not include {line.split(maxsplit=1)[1]}")
            elif match and upwards(headers.get(match[2])):
                findings.append(f"{path}:{number}: {path.parent} may not include upwards ({headers[match[2]]})")
        for match in PLUGIN_NAMES.finditer(text):
            if upwards(owners.get(match[1])):
                number = text.count("\n", 0, match.start()) + 1
                findings.append(f"{path}:{number}: {path.parent} may not declare {match[1]} of {owners[match[1]]}")
    return findings


def check(root):
    findings = []
    for path in common.sources(root):
        for number, line in enumerate(common.read(root, path).splitlines(), 1):
            finding = check_line(path, number, line)
            if finding:
                findings.append(finding)
    return findings + check_plugin(root)


def self_test():
    tree = {
        "mpa/good.cpp": '#include "mpa/good.hpp"\n#include <span>\n#include <isa-l.h>\n#include "parley/mpa.hpp"\n',
        "mpa/up.cpp": '#include "nic/common/objects.hpp"\n',
        "capture/engine.cpp": '#include "cm/manager.hpp"\n',
        "capture/read/tcp/half.hpp": '#include "capture/read/tcp/a.hpp"\n#include "capture/read/fpdu/walker.hpp"\n',
        "capture/rules/rule.cpp": '#include "capture/report.hpp"\n#include "capture/report/text.hpp"\n',
        "include/parley/words.hpp": '#include <tl/expected.hpp>\n#include "parley/time.hpp"\n#include <fmt/format.h>\n#include <boost/asio/post.hpp>\n',
        "include/parley/asio.hpp": "#include <boost/asio/post.hpp>\n#include <fcntl.h>\n#include <boost/beast.hpp>\n",
        "base/clock.cpp": "#include <thread>\n",
        "nic/crc.cpp": "#include <isa-l.h>\n",
        "cm/near.cpp": '#include "near.hpp"\n',
        "drivers/asio/tcp.cpp": "#include <boost/asio.hpp>\n#include <sys/socket.h>\n",
        "dissectors/mpa/d.c": '#include <epan/packet.h>\n#include "parley/wire/mpa.h"\n#include "mpa/crc32c.hpp"\n'
                              "void parley_high(int a,\n                 int b) {\n}\n",
        "dissectors/mpa/parley_high.h": '#include "parley_low.h"\nvoid parley_high(int a, int b);\n',
        "dissectors/common/parley_low.h": "extern int parley_low;\nvoid parley_high(int a,\n                 int b);\n",
        "dissectors/common/low.c": '#include "parley_low.h"\n#include "parley_high.h"\nint parley_low = 1;\n',
        "dissectors/other/d.c": "",
        "tools/t.cpp": '#include "tests/support.hpp"\n',
    }
    with common.made_tree(tree) as root:
        common.expect(check(root), "mpa may not include nic", "capture may not include cm", "half.hpp:2: capture/read/tcp may not include upwards",
                      "rule.cpp:2: capture/rules may not include upwards", "<thread> in base", "<fmt/format.h> in include",
                      "words.hpp:4: <boost/asio/post.hpp> in include", "asio.hpp:3: <boost/beast.hpp> in include",
                      "<isa-l.h> in nic", "cm/near.cpp:1", "tools may not include tests", "dissectors/mpa/d.c:3: the Wireshark plugin may not include",
                      "common/parley_low.h:2: dissectors/common may not declare parley_high of dissectors/mpa/d.c",
                      "common/low.c:2: dissectors/common may not include upwards (dissectors/mpa/parley_high.h)", "other/d.c:1: the Wireshark plugin has no such folder")


if __name__ == "__main__":
    sys.exit(common.main(check, self_test))
