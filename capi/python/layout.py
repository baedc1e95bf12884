# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""layout.py OUTPUT HEADER...: the constants, structures and functions of Parley's C headers, as data for ctypes.

It reads the C that these headers are written in, and stops at anything else: an enumerator with or without a value, members that
are numbers, texts, arrays of char or pointers, functions with such arguments."""
import pathlib
import pprint
import re
import sys

NUMBERS = {"uint8_t": "u8", "uint16_t": "u16", "uint32_t": "u32", "uint64_t": "u64", "int32_t": "i32", "int64_t": "i64",
           "int": "int", "size_t": "size"}


class Reader:
    def __init__(self):
        self.constants, self.structures, self.functions, self.numbers = {}, {}, {}, dict(NUMBERS)

    def value(self, text):
        text = text.strip()
        if text in self.constants:
            return self.constants[text]
        return int(text.rstrip("uUlL"), 0)

    def kind(self, declared):
        """Of a type as it is declared: "const char*" is a text, every other pointer an address."""
        declared = re.sub(r"\s+", " ", declared).strip()
        if declared == "const char*":
            return "text"
        if declared.endswith("*"):
            return "address"
        return self.numbers[declared]

    def enum(self, body):
        following = 0
        for entry in filter(None, (part.strip() for part in body.split(","))):
            name, _, given = (part.strip() for part in entry.partition("="))
            self.constants[name] = following = self.value(given) if given else following
            following += 1

    def structure(self, name, body):
        members = []
        for line in filter(None, (part.strip() for part in body.split(";"))):
            declared, names = re.fullmatch(r"((?:const )?(?:struct )?\w+(?:\s*\*(?:\s*const\*)?)?)\s+([\w,\s\[\]]+)", line, re.DOTALL).groups()
            for one in (part.strip() for part in names.split(",")):
                word, length = re.fullmatch(r"(\w+)(?:\[(\w+)\])?", one).groups()
                members.append((word, ("char" if declared == "char" else self.kind(declared), self.value(length)) if length
                                else self.kind(declared)))
        self.structures[name] = members

    def function(self, result, name, arguments):
        kinds = []
        for argument in arguments.split(","):
            argument = argument.strip()
            if argument == "void":
                continue
            if "[" in argument or "(*" in argument:
                kinds.append("address")
                continue
            kinds.append(self.kind(re.fullmatch(r"(.+?)\s*\b\w+", argument, re.DOTALL)[1]))
        self.functions[name] = (self.kind(result), kinds)

    def read(self, text):
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
        text = re.sub(r"\\\n", " ", text)
        for name, value in re.findall(r"^#define (PARLEY_\w+) (0[xX][0-9a-fA-F]+u?|\d+)$", re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE), re.MULTILINE):
            self.constants[name] = self.value(value)
        for number, name in re.findall(r"typedef (uint\d+_t) (\w+);", text):
            self.numbers[name] = NUMBERS[number]
        text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
        for what, name, body in re.findall(r"\b(enum|struct) (\w+) \{([^}]*)\}\s*;", text):
            if what == "enum":
                self.enum(body)
            else:
                self.structure(name, body)
        for result, name, arguments in re.findall(r"PARLEY_API\s+([\w\s*]+?)\s*\b(parley_\w+)\((.*?)\)\s*;", text, re.DOTALL):
            self.function(result, name, arguments)


def main():
    reader = Reader()
    for header in sys.argv[2:]:
        reader.read(pathlib.Path(header).read_text(encoding="utf-8"))
    text = '"""Made by layout.py from the C headers."""\n'
    for name in ("constants", "structures", "functions"):
        text += f"{name.upper()} = {pprint.pformat(getattr(reader, name), width=120, sort_dicts=False)}\n"
    output = pathlib.Path(sys.argv[1])
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
