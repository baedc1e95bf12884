// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// PARLEY_VERBS_PCAPNG: a pcapng file of the engine's packets. It needs no capture privileges.
#pragma once
#include <cstdio>
#include <memory>
#include <string>

#include "parley/roce_host.hpp"
#include "wire/pcapng.hpp"

namespace parley::preload {

class Recorder {
 public:
  /// `named`: see claim_recording(). A process that records again overwrites its file. Null: the file cannot be created,
  /// for the reason in errno. Not for several threads at once.
  static std::unique_ptr<Recorder> create(const std::string& named);
  void add(const PacketTapRecord& record);
  /// Closes the file; add() then does nothing. A child of fork must, because its copy of the descriptor keeps the
  /// file's lock.
  void close() noexcept { file_.reset(); }

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  explicit Recorder(std::FILE* file);
  void write();

  std::unique_ptr<std::FILE, Closer> file_;
  Bytes block_;
  wire::PcapngWriter writer_;
  Duration to_epoch_;  // offset from the engine's clock to the Unix epoch
};

}  // namespace parley::preload
