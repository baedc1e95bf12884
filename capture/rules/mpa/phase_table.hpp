// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A table of phases × inputs, made at compile time from rows. A Step has a member `next`, the phase that follows.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace parley::capture {

template <class Phase, class Input, class Step>
struct PhaseRow {
  std::uint32_t from = 0;  // a bit for each phase to which the row applies: phase_bits()
  Input on{};
  Step step{};
};

template <class... Phases>
constexpr std::uint32_t phase_bits(Phases... phases) {
  return ((1U << static_cast<unsigned>(phases)) | ...);
}

template <class Step, std::size_t PhaseCount, std::size_t InputCount>
struct PhaseTable {
  std::array<std::array<Step, InputCount>, PhaseCount> cells{};

  /// A cell without a row leaves the phase unchanged. Two rows for one cell do not compile.
  template <class Phase, class Input, std::size_t Rows>
  consteval explicit PhaseTable(const PhaseRow<Phase, Input, Step> (&rows)[Rows]) {
    static_assert(PhaseCount <= 32);
    std::array<std::array<bool, InputCount>, PhaseCount> filled{};
    for (std::size_t p = 0; p < PhaseCount; ++p)
      for (Step& cell : cells[p]) cell.next = static_cast<Phase>(p);
    for (const auto& row : rows)
      for (std::size_t p = 0; p < PhaseCount; ++p) {
        if ((row.from & phase_bits(static_cast<Phase>(p))) == 0) continue;
        const auto i = static_cast<std::size_t>(row.on);
        if (filled[p][i]) throw "two rows for one cell";
        filled[p][i] = true;
        cells[p][i] = row.step;
      }
  }
  template <class Phase, class Input>
  constexpr const Step& at(Phase phase, Input input) const {
    return cells[static_cast<std::size_t>(phase)][static_cast<std::size_t>(input)];
  }
};

}  // namespace parley::capture
