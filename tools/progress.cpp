// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/progress.hpp"

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "tools/terminal.hpp"

namespace parley::tools {

namespace {

using std::chrono::milliseconds;
constexpr milliseconds redraw{100};        ///< on a terminal
constexpr milliseconds line_every{5'000};  ///< without a terminal: keeps logs short

std::size_t terminal_width() {
  const std::size_t columns = terminal_columns(STDERR_FILENO);
  return columns >= 20 ? columns : 80;
}

std::string left(std::uint64_t done, std::uint64_t total, milliseconds elapsed) {
  // An estimate from very little progress would fluctuate.
  if (done == 0 || done >= total || elapsed < milliseconds(500)) return {};
  const auto rest = static_cast<unsigned __int128>(elapsed.count()) * (total - done) / done / 1000;
  if (rest > 359'999) return {};
  const auto seconds = static_cast<std::uint64_t>(rest);
  if (seconds >= 3600) return fmt::format(", {} h {} min left", seconds / 3600, seconds / 60 % 60);
  if (seconds >= 60) return fmt::format(", {} min {} s left", seconds / 60, seconds % 60);
  return fmt::format(", {} s left", seconds);
}

}  // namespace

Progress::Progress(Output& out, std::string unit, std::uint64_t total, bool terminal)
    : out_(out),
      unit_(std::move(unit)),
      total_(total),
      terminal_(terminal),
      began_(std::chrono::steady_clock::now()),
      shown_(began_) {}

Progress::~Progress() { clear(); }

bool Progress::standard_error_is_terminal() { return is_terminal(STDERR_FILENO); }

std::string Progress::bar(std::uint64_t done, std::uint64_t total, std::string_view unit, std::string_view remark,
                          milliseconds elapsed, std::size_t width) {
  std::string figures = total == 0 ? fmt::format("{} {}", done, unit) : fmt::format("{}/{} {}", done, total, unit);
  if (!remark.empty()) figures += fmt::format(", {}", remark);
  if (total == 0) return figures.substr(0, width);
  const auto percent = static_cast<std::uint64_t>(static_cast<unsigned __int128>(done) * 100 / total);
  figures = fmt::format("{:3}% {}{}", percent, figures, left(done, total, elapsed));
  constexpr std::size_t shortest = 10, longest = 30, around = 3;
  if (figures.size() + shortest + around > width) return figures.substr(0, width);
  const std::size_t cells = std::min(longest, width - figures.size() - around);
  const auto full = static_cast<std::size_t>(static_cast<unsigned __int128>(done) * cells / total);
  return fmt::format("[{}{}] {}", std::string(full, '#'), std::string(cells - full, '.'), figures);
}

void Progress::update(std::uint64_t done, std::string_view remark, Time now) {
  if (now - shown_ < (terminal_ ? redraw : line_every)) return;
  shown_ = now;
  const auto elapsed = std::chrono::duration_cast<milliseconds>(now - began_);
  if (terminal_) {
    // Return to the first column, print, and erase what the last drawing left after the text (ECMA-48 §8.3.41).
    out_.draw("\r" + bar(done, total_, unit_, remark, elapsed, terminal_width() - 1) + "\x1b[K");
    drawn_ = true;
  } else {
    std::string line =
        total_ == 0 ? fmt::format("{} {}", done, unit_) : fmt::format("{} of {} {}", done, total_, unit_);
    if (!remark.empty()) line += fmt::format(", {}", remark);
    out_.note(fmt::format("{}, {} s", line, elapsed.count() / 1000));
  }
}

void Progress::clear() {
  if (drawn_) out_.draw("\r\x1b[K");
  drawn_ = false;
}

}  // namespace parley::tools
