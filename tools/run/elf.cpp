// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/run/elf.hpp"

#include <elf.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

#include <fmt/format.h>

#include "base/bytes_io.hpp"

namespace parley::tools {

namespace {

constexpr std::size_t ident_size = 16, longest_path = 4096;
constexpr std::size_t longest_table = 65536;  // of program headers, as Linux allows

/// Offsets in the file's own class (System V ABI, ELF header and program header).
struct Layout {
  std::size_t header, phoff, phentsize, phnum;  // ELF header
  std::size_t segment, p_offset, p_filesz;      // program header
};
constexpr Layout layout_32{52, 28, 42, 44, 32, 4, 16}, layout_64{64, 32, 54, 56, 56, 8, 32};
constexpr std::size_t machine_at = 18;

struct Numbers {
  std::endian order;
  bool is_64;
  std::uint16_t u16(const std::uint8_t* at) const { return load<std::uint16_t>(at, order); }
  std::uint32_t u32(const std::uint8_t* at) const { return load<std::uint32_t>(at, order); }
  std::uint64_t word(const std::uint8_t* at) const { return is_64 ? load<std::uint64_t>(at, order) : u32(at); }
};

/// The path in a PT_INTERP segment: a string that ends with its only zero octet. Empty: it is none.
std::string path_in(const ReadAt& read, std::uint64_t offset, std::uint64_t size) {
  if (size < 2 || size > longest_path) return {};
  std::array<std::uint8_t, longest_path> room;
  const MutBytes path(room.data(), static_cast<std::size_t>(size));
  if (read(offset, path) != path.size() || path.back() != 0) return {};
  return {path.begin(), std::find(path.begin(), path.end(), 0)};
}

/// Empty: unknown machine.
std::string_view name_of(std::uint16_t machine) {
  switch (machine) {
    case EM_386: return "x86";
    case EM_X86_64: return "x86-64";
    case EM_ARM: return "ARM";
    case EM_AARCH64: return "AArch64";
    case EM_RISCV: return "RISC-V";
    case EM_PPC64: return "PowerPC64";
    case EM_S390: return "S/390";
    default: return {};
  }
}

}  // namespace

std::string ElfFacts::machine_text() const {
  const std::string_view name = name_of(machine);
  if (name.empty()) return fmt::format("machine {}", machine);
  const bool usual = !big_endian && is_64 == (machine == EM_X86_64 || machine == EM_AARCH64 || machine == EM_RISCV);
  return usual ? std::string(name)
               : fmt::format("{} ({}-bit, {}-endian)", name, is_64 ? 64 : 32, big_endian ? "big" : "little");
}

ElfFacts read_elf(const ReadAt& read) {
  ElfFacts facts;
  std::array<std::uint8_t, 64> head{};
  const std::size_t got = read(0, head);
  constexpr std::array<std::uint8_t, 4> magic{0x7F, 'E', 'L', 'F'};
  if (got < magic.size() || !std::equal(magic.begin(), magic.end(), head.begin())) return facts;
  facts.form = ElfFacts::Form::damaged;
  const std::uint8_t elf_class = head[4], data = head[5];
  if (got < ident_size || elf_class < 1 || elf_class > 2 || data < 1 || data > 2) return facts;
  facts.is_64 = elf_class == 2;
  facts.big_endian = data == 2;
  const Layout& at = facts.is_64 ? layout_64 : layout_32;
  const Numbers n{facts.big_endian ? std::endian::big : std::endian::little, facts.is_64};
  if (got < at.header) return facts;
  facts.machine = n.u16(&head[machine_at]);
  const std::uint64_t table = n.word(&head[at.phoff]);
  const std::uint16_t count = n.u16(&head[at.phnum]);
  if (n.u16(&head[at.phentsize]) != at.segment || count == 0 || std::size_t{count} * at.segment > longest_table ||
      table > UINT64_MAX - std::uint64_t{count} * at.segment)
    return facts;
  for (std::uint16_t i = 0; i < count; ++i) {
    std::array<std::uint8_t, 56> segment{};
    const MutBytes room(segment.data(), at.segment);
    if (read(table + std::uint64_t{i} * at.segment, room) != room.size()) return facts;
    if (n.u32(segment.data()) != PT_INTERP) continue;
    facts.interpreter = path_in(read, n.word(&segment[at.p_offset]), n.word(&segment[at.p_filesz]));
    if (!facts.interpreter.empty()) facts.form = ElfFacts::Form::whole;
    return facts;
  }
  facts.form = ElfFacts::Form::whole;
  return facts;
}

}  // namespace parley::tools
