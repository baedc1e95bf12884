// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/rules/mpa/half_state.hpp"

namespace parley::capture {

void StartupHead::add(ConstBytes in, const SegmentRef& ref) {
  const std::size_t before = octets.size();
  if (before == 0)
    first = ref;
  else if (!in.empty())
    split = true;
  octets.insert(octets.end(), in.begin(), in.end());
  if (!in.empty()) last = ref;
  if (before < PARLEY_MPA_HEADER_LEN && octets.size() >= PARLEY_MPA_HEADER_LEN) header = ref;
}

}  // namespace parley::capture
