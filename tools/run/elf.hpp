// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The facts in an ELF file that decide whether a preloaded library can reach the program. Pure; the file is untrusted.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "parley/bytes.hpp"

namespace parley::tools {

/// Reads octets of the file at `offset` into `out`. Returns their number, which is less than out.size() at the file's
/// end or after an error.
using ReadAt = std::function<std::size_t(std::uint64_t offset, MutBytes out)>;

struct ElfFacts {
  enum class Form : std::uint8_t {
    other,    ///< not ELF
    damaged,  ///< the magic number is there, but the headers are not whole, or beyond what the system accepts
    whole,
  };
  Form form = Form::other;
  bool is_64 = false;         ///< EI_CLASS
  bool big_endian = false;    ///< EI_DATA
  std::uint16_t machine = 0;  ///< e_machine
  std::string interpreter;    ///< PT_INTERP: the dynamic loader; empty: statically linked

  bool same_machine(const ElfFacts& other) const {
    return is_64 == other.is_64 && big_endian == other.big_endian && machine == other.machine;
  }
  /// "x86-64", "x86", "ARM (32-bit, big-endian)", "machine 4711": for people.
  std::string machine_text() const;
};

/// Reads at most the ELF header, 65536 octets of program headers and a path of 4096 octets.
ElfFacts read_elf(const ReadAt& read);

}  // namespace parley::tools
