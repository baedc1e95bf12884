// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Any texts as a path, a request and its members, a line for each: what is refused has words; a path that is taken is written so that it
// is read again as the same; a member that is set is one of the attribute, and to set it again changes nothing.
#include <string>
#include <vector>

#include "base/assert.hpp"
#include "mad/path_text.hpp"
#include "mad/rpc_text.hpp"

namespace {

using namespace parley;
using namespace parley::mad;

void check_path(std::string_view text) {
  const auto given = parse_path(text);
  if (!given) {
    PARLEY_ASSERT(!given.error().empty());
    return;
  }
  if (given->gid && !given->path.address.grh) return;  // subnet administration has the path
  const std::string written = path_spec(given->path);
  const auto again = parse_path(written);
  PARLEY_ASSERT(again.has_value());
  PARLEY_ASSERT(again->path == given->path);
  PARLEY_ASSERT(path_spec(again->path) == written);
}

void check_member(RpcText& request, std::string_view text) {
  const RpcText before = request;
  if (const std::string wrong = set_field(request, text); !wrong.empty()) return;
  PARLEY_ASSERT(request.body.size() == request.attribute->octets);
  PARLEY_ASSERT(request.rpc.component_mask == 0 || request.rpc.mgmt_class == wire::mad::MgmtClass::subn_adm);
  PARLEY_ASSERT((request.rpc.component_mask & before.rpc.component_mask) == before.rpc.component_mask);
  RpcText twice = request;
  PARLEY_ASSERT(set_field(twice, text).empty());
  PARLEY_ASSERT(twice.body == request.body && twice.rpc.component_mask == request.rpc.component_mask);
  const auto place = find_member(*request.attribute, text.substr(0, text.find('=')));
  if (!place) return;  // the request's own: modifier, key
  PARLEY_ASSERT(place->base() + place->octets(*request.attribute) <= request.attribute->octets);
  PARLEY_ASSERT(place->index < place->field->count && place->outer_index < place->outer->count);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::string> lines(1);
  for (std::size_t i = 0; i < size; ++i)
    if (data[i] == '\n')
      lines.emplace_back();
    else
      lines.back() += static_cast<char>(data[i]);
  lines.resize(std::max<std::size_t>(lines.size(), 3));
  check_path(lines[0]);
  auto request = parse_rpc(lines[1], lines[2]);
  if (!request) {
    PARLEY_ASSERT(!request.error().empty());
    return 0;
  }
  for (std::size_t i = 3; i < lines.size(); ++i) check_member(*request, lines[i]);
  return 0;
}
