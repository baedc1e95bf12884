// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A file that gets its name when it is whole, so that readers see either the old content or the new.
#pragma once
#include <sys/types.h>

#include <string>
#include <string_view>

namespace parley {

/// A new file in the folder of `path`. Each step is false with errno if it fails; without take_name() the file is removed again.
class Replacement {
 public:
  explicit Replacement(std::string path);
  ~Replacement();
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  bool write(std::string_view content, mode_t mode);
  /// Some file systems report only here that there is no space.
  bool close();
  /// Replaces what has the name. Call it only after write() has succeeded.
  bool take_name();
  int fd() const { return fd_; }  ///< negative: it could not be created, or is closed
  int release();                  ///< the caller closes it

 private:
  std::string path_, fresh_;  // `fresh_`: its present name; empty: it has `path_`
  int fd_;
};

}  // namespace parley
