// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Members of management datagrams' structures by name: parley/mad.h over the table of parley/wire/mad.h.
#include <fmt/format.h>

#include "capi/error.hpp"
#include "mad/rpc_text.hpp"
#include "mad/words.hpp"
#include "parley/mad.h"
#include "wire/mad/print.hpp"

using namespace parley;
using namespace parley::capi;

namespace {

using wire::mad::Layout;

int find_structure(const char* name, const Layout*& out) {
  if (name == nullptr) return capi::fail(PARLEY_E_INVALID_ARGUMENT, "structure is null");
  out = wire::mad::find_layout(name);
  if (out != nullptr) return 0;
  return wrong(
      fmt::format("there is no structure {}; parley/wire/mad.h lists those that there are: NodeInfo, PortInfo, "
                  "PathRecord, ...",
                  mad::quoted(name)));
}

/// Finds the structure and checks that `octets` has all of it.
int find_octets(const char* name, const void* octets, std::size_t length, const Layout*& layout) {
  if (const int rc = find_structure(name, layout); rc != 0) return rc;
  if (octets == nullptr) return capi::fail(PARLEY_E_INVALID_ARGUMENT, "octets is null");
  if (length >= layout->octets) return 0;
  return wrong(fmt::format("length is {}; {} has {} octets", length, layout->name, layout->octets));
}

ConstBytes view_of(const Layout& layout, const void* octets) {
  return {static_cast<const std::uint8_t*>(octets), layout.octets};
}

/// Truncates and returns the full length, as snprintf().
int write(std::string_view text, char* to, std::size_t size) {
  if (size > 0) {
    const std::size_t n = std::min(text.size(), size - 1);
    std::copy_n(text.begin(), n, to);
    to[n] = '\0';
  }
  return static_cast<int>(text.size());
}

}  // namespace

extern "C" int parley_mad_size(const char* structure) {
  return guarded([&] {
    const Layout* layout = nullptr;
    const int rc = find_structure(structure, layout);
    return rc != 0 ? rc : static_cast<int>(layout->octets);
  });
}

extern "C" int parley_mad_get(const char* structure, const void* octets, size_t length, const char* member,
                              uint64_t* out) {
  return guarded([&] {
    const Layout* layout = nullptr;
    if (const int rc = find_octets(structure, octets, length, layout); rc != 0) return rc;
    if (member == nullptr || out == nullptr) return capi::fail(PARLEY_E_INVALID_ARGUMENT, "member or out is null");
    const auto place = mad::find_member(*layout, member);
    if (!place) return wrong(place.error());
    const wire::mad::Field& field = *place->field;
    using wire::mad::Kind;
    if (field.kind == Kind::gid || field.kind == Kind::text || field.kind == Kind::octets)
      return wrong(fmt::format("{} of {} is not a number: parley_mad_text() writes it", member, layout->name));
    const ConstBytes inner = view_of(*layout, octets).subspan(place->base(), place->octets(*layout));
    *out = wire::mad::number_at(inner, field, place->index);
    return 0;
  });
}

extern "C" int parley_mad_set(const char* structure, void* octets, size_t length, const char* assignment) {
  return guarded([&] {
    const Layout* layout = nullptr;
    if (const int rc = find_octets(structure, octets, length, layout); rc != 0) return rc;
    const std::string_view text = assignment != nullptr ? assignment : "";
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos)
      return wrong(fmt::format("a member is set as NAME=VALUE, not {}", mad::quoted(text)));
    const MutBytes all(static_cast<std::uint8_t*>(octets), layout->octets);
    const auto done = mad::set_member(*layout, all, text.substr(0, equals), text.substr(equals + 1));
    return done ? 0 : wrong(done.error());
  });
}

extern "C" int parley_mad_text(const char* structure, const void* octets, size_t length, const char* member, char* to,
                               size_t size) {
  return guarded([&] {
    const Layout* layout = nullptr;
    if (const int rc = find_octets(structure, octets, length, layout); rc != 0) return rc;
    if (to == nullptr && size != 0) return capi::fail(PARLEY_E_INVALID_ARGUMENT, "to is null, and size is not 0");
    const ConstBytes all = view_of(*layout, octets);
    if (member == nullptr) return write(wire::mad::dotted(*layout, all), to, size);
    const auto place = mad::find_member(*layout, member);
    if (!place) return wrong(place.error());
    const ConstBytes inner = all.subspan(place->base(), place->octets(*layout));
    std::string text = wire::mad::value_text(*place->field, inner, place->index);
    if (place->field->kind == wire::mad::Kind::text) text = text.substr(1, text.size() - 2);  // without its quotes
    return write(text, to, size);
  });
}
