# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""lint.standard: a pure room includes what it uses of the standard library, fmt and tl::expected.

A file does so itself or by a header of the project, not by what a standard header happens to include: a precompiled header, or
another library's version, would hide that. Names of the project itself are the compiler's business: ./dev stress compiles
each file alone.
"""
import re
import sys

import common

# Header: the names that it gives, those that the project uses. A name that several give stands once, with all of them.
HEADERS = {
    "algorithm": "adjacent_find all_of any_of binary_search clamp copy copy_if copy_n count count_if equal equal_range fill fill_n find "
                 "find_if find_if_not for_each generate includes is_sorted lexicographical_compare lower_bound make_heap max max_element merge min "
                 "min_element minmax mismatch none_of nth_element partition pop_heap push_heap remove remove_if replace replace_if reverse rotate search "
                 "set_difference set_intersection shuffle sort stable_partition stable_sort transform unique upper_bound",
    "array": "array to_array",
    "bit": "bit_cast bit_ceil bit_width countl_zero countr_zero endian has_single_bit popcount rotl rotr",
    "bitset": "bitset",
    "cctype": "isalnum isalpha isdigit islower isprint isspace isupper isxdigit tolower toupper",
    "charconv": "chars_format from_chars from_chars_result to_chars",
    "chrono": "chrono chrono_literals",
    "compare": "partial_ordering strong_ordering weak_ordering",
    "concepts": "convertible_to derived_from equality_comparable floating_point integral invocable same_as signed_integral totally_ordered "
                "unsigned_integral",
    "coroutine": "coroutine_handle noop_coroutine suspend_always suspend_never",
    "cstdint": "int8_t int16_t int32_t int64_t intptr_t uint8_t uint16_t uint32_t uint64_t uintptr_t",
    "cstdio": "FILE fprintf fputs snprintf",
    "cstdlib": "abort abs free malloc strtoull",
    "cstring": "memchr memcmp memcpy memmove memset strcmp strlen strncmp",
    "deque": "deque",
    "exception": "current_exception exception exception_ptr rethrow_exception terminate",
    "functional": "bind cref equal_to function greater hash invoke less minus multiplies plus ref reference_wrapper",
    "initializer_list": "initializer_list",
    "iterator": "back_inserter distance forward_iterator_tag istreambuf_iterator make_move_iterator reverse_iterator",
    "array deque iterator list map set span string string_view vector": "advance begin cbegin cend data empty end next prev rbegin rend size ssize",
    "limits": "numeric_limits",
    "list": "list",
    "map": "map multimap",
    "memory": "addressof allocator construct_at default_delete destroy_at enable_shared_from_this make_shared make_unique "
              "make_unique_for_overwrite shared_ptr unique_ptr weak_ptr",
    "new": "align_val_t bad_alloc launder nothrow",
    "numeric": "accumulate gcd inner_product iota lcm midpoint partial_sum reduce",
    "optional": "make_optional nullopt nullopt_t optional",
    "queue": "priority_queue queue",
    "algorithm ranges": "ranges",
    "ratio": "micro milli nano ratio",
    "set": "multiset set",
    "span": "as_bytes as_writable_bytes dynamic_extent span",
    "stdexcept": "invalid_argument length_error logic_error out_of_range runtime_error",
    "string": "char_traits getline stoi stoul stoull string to_string",
    "string_view": "string_view string_view_literals",
    "system_error": "errc error_category error_code error_condition generic_category is_error_code_enum make_error_code system_category "
                    "system_error",
    "tuple": "apply forward_as_tuple ignore make_tuple tie tuple tuple_cat tuple_element_t tuple_size_v",
    "type_traits": "common_type_t conditional_t decay_t enable_if_t false_type integral_constant invoke_result_t is_arithmetic_v is_base_of_v "
                   "is_class_v is_const_v is_constant_evaluated is_constructible_v is_convertible_v is_enum_v is_floating_point_v is_integral_v "
                   "is_invocable_v is_same_v is_signed_v is_trivially_copyable_v is_unsigned_v is_void_v make_signed_t make_unsigned_t "
                   "remove_const_t remove_cvref_t remove_reference_t true_type type_identity_t underlying_type_t void_t",
    "unordered_map": "unordered_map",
    "unordered_set": "unordered_set",
    "utility": "as_const cmp_less declval exchange forward in_place in_place_type index_sequence make_index_sequence make_pair move pair "
               "piecewise_construct swap unreachable",
    "variant": "bad_variant_access get_if holds_alternative in_place_index monostate variant variant_alternative_t variant_size_v visit",
    "vector": "vector",
}
GIVEN_BY = {name: headers.split() for headers, names in HEADERS.items() for name in names.split()}
# Of any standard header, or of the type's own that they are called for.
ANYWHERE = {"size_t", "ptrdiff_t", "nullptr_t", "byte", "erase", "erase_if", "get"}
LIBRARIES = {"fmt": ["fmt/format.h", "fmt/core.h", "fmt/ranges.h"], "tl": ["tl/expected.hpp"]}
NAME = re.compile(r"\b(std|fmt|tl)::(\w+)")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"].*$', re.MULTILINE)
# What is no code; raw strings before others.
ASIDE = re.compile(r'R"(\w*)\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


def without(pattern, text):
    """Text with as many lines."""
    return pattern.sub(lambda match: "\n" * match[0].count("\n"), text)


class Tree:
    def __init__(self, root):
        paths = common.files(root, [*common.PURE_ROOMS, "include"], (".cpp", ".hpp"))
        self.texts = {path.as_posix(): common.read(root, path) for path in paths}
        self.included = {}  # by file: what is outside the project, the project's headers
        for path, text in self.texts.items():
            found = INCLUDE.findall(text)
            names = [name for quoted, name in found if quoted == '"']
            self.included[path] = ({name for quoted, name in found if quoted == "<"},
                                   [near for name in names for near in (name, f"include/{name}") if near in self.texts])

    def outside(self, path):
        """What a file includes from outside the project, by whatever of the project's headers."""
        seen, ahead, found = set(), [path], set()
        while ahead:
            at = ahead.pop()
            if at in seen:
                continue
            seen.add(at)
            foreign, own = self.included[at]
            found |= foreign
            ahead += own
        return found


def missing(library, name, there, strict):
    """What a file lacks that uses this name, or None."""
    if library != "std":
        return None if there & set(LIBRARIES[library]) else f"<{LIBRARIES[library][0]}>"
    if name in ANYWHERE:
        return None
    if name not in GIVEN_BY:
        return "a line for it in tests/lint/standard.py" if strict else None
    return None if there & set(GIVEN_BY[name]) else f"<{GIVEN_BY[name][0]}>"


def check(root):
    tree = Tree(root)
    findings = []
    for path, text in tree.texts.items():
        there, told = tree.outside(path), set()
        for number, line in enumerate(without(ASIDE, without(INCLUDE, text)).splitlines(), 1):
            for library, name in NAME.findall(line):
                lacks = missing(library, name, there, not path.startswith("include/"))
                if lacks and (name, lacks) not in told:
                    told.add((name, lacks))
                    findings.append(f"{path}:{number}: {library}::{name} wants {lacks}")
    return findings


def self_test():
    tree = {
        "base/good.hpp": "#include <vector>\nstd::vector<int> a();\n",
        "base/good.cpp": '#include "base/good.hpp"\n\n#include <fmt/format.h>\nstd::vector<int> b; // std::map\nauto c = fmt::format("std::map");\n',
        "base/lacks.cpp": '#include "base/good.hpp"\n\nstd::size_t n;\nstd::map<int, std::map<int, int>> m;\n',
        "base/raw.cpp": 'auto a = R"(std::map " )";\n#include <utility>\n/* std::list\n*/ auto b = std::move(a), c = fmt::format("");\n',
        "base/new.cpp": "std::flat_map<int> m;\n",
        "include/parley/a.hpp": "#include <string>\nstd::string a;\n",
        "mpa/by_user.cpp": '#include "parley/a.hpp"\nstd::string a; tl::expected<int, int> b;\n',
        "tools/t.cpp": "std::map<int, int> not_pure;\n",
    }
    with common.made_tree(tree) as root:
        common.expect(check(root), "base/lacks.cpp:4: std::map wants <map>", "base/raw.cpp:4: fmt::format wants <fmt/format.h>",
                      "base/new.cpp:1: std::flat_map wants a line", "mpa/by_user.cpp:2: tl::expected wants <tl/expected.hpp>")


if __name__ == "__main__":
    sys.exit(common.main(check, self_test))
