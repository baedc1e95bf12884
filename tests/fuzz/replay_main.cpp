// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Runs a fuzz target over files, or over all files of folders, in the order of their names. For compilers without
// libFuzzer, and to see one input again in a debugger.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i) {
    if (std::filesystem::is_directory(argv[i]))
      for (const auto& entry : std::filesystem::directory_iterator(argv[i])) files.push_back(entry.path());
    else
      files.emplace_back(argv[i]);
  }
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    const std::vector<char> text{std::istreambuf_iterator<char>(in), {}};
    if (!in) {
      std::fprintf(stderr, "%s: cannot be read\n", file.c_str());
      return 1;
    }
    const std::vector<std::uint8_t> octets(text.begin(), text.end());
    std::fprintf(stderr, "%s\n", file.c_str());  // the last name shown is the one that failed
    LLVMFuzzerTestOneInput(octets.data(), octets.size());
  }
  std::printf("%zu inputs replayed\n", files.size());
  return files.empty() ? 1 : 0;
}
