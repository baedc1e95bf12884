// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Any octets as a capture file to be anonymized: the result does not depend on how much of the file is shown at a time,
// it is a capture of as many packets of the same times and lengths, and anonymizing is refused or done, never half done.
#include <optional>
#include <tuple>
#include <vector>

#include "capture/anonymize/anonymize.hpp"
#include "tests/fuzz/draw.hpp"

namespace parley::fuzz {
namespace {

using capture::AnonymizeOptions;
using capture::Anonymizer;

struct Result {
  Bytes file;
  bool refused = false, broken = false;
  bool operator==(const Result&) const = default;
};

Result anonymize(ConstBytes file, const AnonymizeOptions& options, Chunks* chunks) {
  Anonymizer work(options);
  (void)wire::read_capture(file, [&](const wire::CapturedPacket& packet) { work.note(packet); });
  work.learned();
  Result result;
  result.refused = !work.refusal().empty();
  if (result.refused) return result;
  std::size_t shown = chunks == nullptr ? file.size() : 0;
  for (;;) {
    std::size_t consumed = 0;
    const auto status = work.rewrite(file.first(shown), result.file, consumed);
    PARLEY_ASSERT(consumed <= shown);
    file = file.subspan(consumed);
    shown -= consumed;
    if (status == wire::CaptureStatus::error) break;
    if (status != wire::CaptureStatus::need_more) continue;
    if (shown == file.size()) break;
    shown = std::min(file.size(), shown + chunks->next());
  }
  result.broken = work.finish(file.size()).has_value();
  return result;
}

using Facts = std::tuple<std::uint16_t, std::uint32_t, std::size_t, Instant>;

std::vector<Facts> packets(ConstBytes file) {
  std::vector<Facts> out;
  (void)wire::read_capture(file, [&](const wire::CapturedPacket& p) {
    out.emplace_back(p.link_type, p.original_length, p.octets.size(), p.at);
  });
  return out;
}

void run(ConstBytes in) {
  Draw draw(in);
  Chunks chunks(draw.u8());
  AnonymizeOptions options;
  options.key = capture::AnonymizeKey::from_text("a key");
  options.keep_stags = draw.bit();
  const ConstBytes file = draw.rest();
  const Result whole = anonymize(file, options, nullptr);
  PARLEY_ASSERT(whole == anonymize(file, options, &chunks));
  if (!whole.refused && !whole.broken) PARLEY_ASSERT(packets(file) == packets(whole.file));
}

}  // namespace
}  // namespace parley::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  parley::fuzz::run({data, size});
  return 0;
}
