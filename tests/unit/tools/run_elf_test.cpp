// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// ELF headers as `parley run` reads them: whole ones of both classes and octet orders, and damaged ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <string_view>

#include "base/bytes_io.hpp"
#include "tools/run/elf.hpp"
#include "tools/run/program.hpp"

namespace parley::tools::run_elf_test {
namespace {

struct Shape {
  bool is_64 = true;
  std::endian order = std::endian::little;
  std::uint16_t machine = 62;
  std::string interpreter = "/lib64/ld-linux-x86-64.so.2";
  std::uint64_t path_at = 0x1000;
};

template <class T>
void put(Bytes& to, std::size_t at, T value, std::endian order) {
  store<T>(to.data() + at, value, order);
}

/// A file with a PT_LOAD and, if there is an interpreter, a PT_INTERP behind it.
Bytes file_of(const Shape& shape) {
  const std::size_t header = shape.is_64 ? 64 : 52, segment = shape.is_64 ? 56 : 32;
  Bytes out(shape.path_at + shape.interpreter.size() + 1);
  std::memcpy(out.data(),
              "\x7f"
              "ELF",
              4);
  out[4] = shape.is_64 ? 2 : 1;
  out[5] = shape.order == std::endian::little ? 1 : 2;
  const auto order = shape.order;
  put<std::uint16_t>(out, 18, shape.machine, order);
  const auto word = [&](std::size_t at, std::uint64_t value) {
    if (shape.is_64)
      put<std::uint64_t>(out, at, value, order);
    else
      put<std::uint32_t>(out, at, static_cast<std::uint32_t>(value), order);
  };
  word(shape.is_64 ? 32 : 28, header);
  put<std::uint16_t>(out, shape.is_64 ? 54 : 42, static_cast<std::uint16_t>(segment), order);
  put<std::uint16_t>(out, shape.is_64 ? 56 : 44, shape.interpreter.empty() ? 1 : 2, order);
  put<std::uint32_t>(out, header, 1, order);
  if (shape.interpreter.empty()) return out;
  put<std::uint32_t>(out, header + segment, 3, order);
  word(header + segment + (shape.is_64 ? 8 : 4), shape.path_at);
  word(header + segment + (shape.is_64 ? 32 : 16), shape.interpreter.size() + 1);
  std::copy(shape.interpreter.begin(), shape.interpreter.end(),
            out.begin() + static_cast<std::ptrdiff_t>(shape.path_at));
  return out;
}

ElfFacts read(const Bytes& file) {
  return read_elf([&file](std::uint64_t offset, MutBytes out) -> std::size_t {
    if (offset >= file.size()) return 0;
    const std::size_t n = std::min<std::size_t>(out.size(), file.size() - static_cast<std::size_t>(offset));
    std::copy_n(file.begin() + static_cast<std::ptrdiff_t>(offset), n, out.begin());
    return n;
  });
}

using Form = ElfFacts::Form;

TEST(RunElf, NamesTheLoaderInEachClassAndOctetOrder) {
  for (const bool is_64 : {false, true})
    for (const auto order : {std::endian::little, std::endian::big}) {
      const ElfFacts facts = read(file_of({.is_64 = is_64, .order = order, .machine = 183}));
      EXPECT_EQ(facts.form, Form::whole);
      EXPECT_EQ(facts.interpreter, "/lib64/ld-linux-x86-64.so.2");
      EXPECT_EQ(facts.machine, 183);
      EXPECT_EQ(facts.is_64, is_64);
      EXPECT_EQ(facts.big_endian, order == std::endian::big);
    }
}

TEST(RunElf, AStaticProgramHasNoLoader) {
  const ElfFacts facts = read(file_of({.interpreter = ""}));
  EXPECT_EQ(facts.form, Form::whole);
  EXPECT_EQ(facts.interpreter, "");
}

TEST(RunElf, OtherFilesAreNotJudged) {
  for (const std::string_view text : {"",
                                      "\x7f"
                                      "EL",
                                      "#!/bin/sh\n", "MZ"})
    EXPECT_EQ(read(Bytes(text.begin(), text.end())).form, Form::other) << text;
}

TEST(RunElf, EachCutIsDamagedOrMissesTheMagicNumber) {
  const Bytes whole = file_of({.path_at = 200});
  ASSERT_EQ(read(whole).form, Form::whole);
  for (std::size_t n = 0; n < whole.size(); ++n)
    EXPECT_EQ(read(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n))).form,
              n < 4 ? Form::other : Form::damaged)
        << n;
}

TEST(RunElf, ImpossibleHeadersAreDamaged) {
  struct Wrong {
    const char* what;
    std::size_t at;
    Bytes octets;
  };
  const Bytes all_ones(8, 0xFF), none(8, 0);
  const Bytes whole = file_of({});
  for (const Wrong& wrong : {Wrong{"class 0", 4, {0}},
                             {"class 3", 4, {3}},
                             {"octet order 0", 5, {0}},
                             {"table beyond the file", 32, all_ones},
                             {"size of a program header", 54, {55, 0}},
                             {"no program headers", 56, {0, 0}},
                             {"1171 program headers", 56, {0x93, 4}},
                             {"path beyond the file", 64 + 56 + 8, all_ones},
                             {"endless path", 64 + 56 + 32, all_ones},
                             {"path of no octets", 64 + 56 + 32, none},
                             {"path that does not end", 64 + 56 + 32, {20}}}) {
    Bytes file = whole;
    std::copy(wrong.octets.begin(), wrong.octets.end(), file.begin() + static_cast<std::ptrdiff_t>(wrong.at));
    EXPECT_EQ(read(file).form, Form::damaged) << wrong.what;
  }
}

TEST(RunElf, ProgramHeadersTakeAtMost64KiB) {
  Bytes file = file_of({});
  file[56] = 0x92;  // 1170 of 56 octets; the second is PT_INTERP
  file[57] = 4;
  EXPECT_EQ(read(file).form, Form::whole);
  file = file_of({.is_64 = false});
  file[45] = 8;  // 2050 of 32 octets
  EXPECT_EQ(read(file).form, Form::damaged);
  file[44] = 0;  // 2048
  EXPECT_EQ(read(file).form, Form::whole);
}

TEST(RunElf, MachinesHaveNames) {
  EXPECT_EQ(read(file_of({})).machine_text(), "x86-64");
  EXPECT_EQ(read(file_of({.machine = 183})).machine_text(), "AArch64");
  EXPECT_EQ(read(file_of({.is_64 = false, .machine = 3})).machine_text(), "x86");
  EXPECT_NE(read(file_of({.is_64 = false})).machine_text(), "x86-64") << "x32";
  EXPECT_EQ(read(file_of({.machine = 4711})).machine_text(), "machine 4711");
  EXPECT_FALSE(read(file_of({})).same_machine(read(file_of({.is_64 = false}))));
}

TEST(RunPreload, TheLibraryIsAddedOnce) {
  EXPECT_EQ(preload_list("/l/a.so", ""), "/l/a.so");
  EXPECT_EQ(preload_list("/l/a.so", "/l/b.so"), "/l/a.so:/l/b.so");
  for (const std::string before : {"/l/a.so", "/l/b.so:/l/a.so", "/l/b.so /l/a.so", "/l/a.so:/l/b.so"})
    EXPECT_EQ(preload_list("/l/a.so", before), before);
  EXPECT_EQ(preload_list("/l/a.so", "/l/a.so.1"), "/l/a.so:/l/a.so.1");
}

}  // namespace
}  // namespace parley::tools::run_elf_test
