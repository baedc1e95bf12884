# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""lint.length: files of at most 800 lines, functions of at most 70."""
import re
import sys

import common

FILE_MAX = 800
FUNCTION_MAX = 70
SUFFIXES = (*common.SOURCE_SUFFIXES, ".py", ".sh", ".cmake")
# Blocks that may stand around a function.
SCOPE = re.compile(r"(^|\s)(namespace|class|struct|union|enum|extern\s+\"\")(\s|\{|$)")
STATEMENT = re.compile(r"^(if|for|while|switch|do|else|try|catch|return)\b")


def blank(text):
    """The text without comments and with empty literals; the line structure stays."""
    def keep_lines(match):
        token = match[0]
        return ("" if token[0] == "/" else '""') + "\n" * token.count("\n")
    return re.sub(r'R"(\w*)\((?:.|\n)*?\)\1"|//[^\n]*|/\*(?:.|\n)*?\*/|"(?:\\.|[^"\\\n])*"|'
                  r"(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", keep_lines, text)


def functions(text):
    """(name, first line, line count) of each function body outside other functions."""
    stack = []  # [is a function, first line, head]
    head, head_line, line = "", 1, 1
    for char in blank(text):
        if char == "\n":
            line += 1
        if char == "{":
            inside = any(frame[0] for frame in stack)
            words = head.strip()
            function = (not inside and "(" in words and not SCOPE.search(words.split("(")[0])
                        and not STATEMENT.match(words))
            stack.append([function, head_line, words])
        elif char == "}" and stack:
            function, first, words = stack.pop()
            if function:
                yield (words.split("(")[0].split() or ["?"])[-1], first, line - first + 1
        if char in "{};":
            head = ""
        else:
            if not head.strip():
                head_line = line
            head += char


def preprocessor_free(text):
    return re.sub(r"(?m)^\s*#(?:[^\n]*\\\n)*[^\n]*", lambda m: "\n" * m[0].count("\n"), text)


def check(root):
    findings = []
    for path in common.files(root, [*common.CODE_FOLDERS, "cmake"], SUFFIXES):
        text = common.read(root, path)
        count = text.count("\n")
        if count > FILE_MAX:
            findings.append(f"{path}: {count} lines, at most {FILE_MAX}")
        if path.suffix in common.SOURCE_SUFFIXES:
            findings += [f"{path}:{first}: {name} has {length} lines, at most {FUNCTION_MAX}"
                         for name, first, length in functions(preprocessor_free(text)) if length > FUNCTION_MAX]
    return findings


def self_test():
    body = "  x();\n" * 80
    tree = {
        "mpa/long.cpp": "int a;\n" * 801,
        "docs/examples/long.cpp": "int a;\n" * 801,
        "mpa/function.cpp": "namespace parley {\nstruct S {\n  int get() const { return 1; }\n};\n\n"
                            "int S::big(int a,\n           int b) {\n" + body + "}\n}  // namespace parley\n",
        "mpa/fine.cpp": "namespace parley {\nint f() {\n  const char* s = \"{\"; // {\n  char c = '{';\n  x();\n}\n"
                        + "int g() {\n  x();\n}\n" * 30 + "}\n",
        "mpa/table.hpp": "constexpr int table[] = {\n" + "  1,\n" * 90 + "};\n",
        "mpa/test.cpp": "TEST(Suite, Name) {\n" + body + "}\n",
    }
    with common.made_tree(tree) as root:
        common.expect(check(root), "docs/examples/long.cpp: 801 lines", "mpa/long.cpp: 801 lines", "mpa/function.cpp:6: S::big has 83", "mpa/test.cpp:1: TEST")


if __name__ == "__main__":
    sys.exit(common.main(check, self_test))
