// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The formats of values in scenario files. A form reads a DocValue into a member, describes the expected format, and
// writes the member back; `key` makes a line of the schema from a form and the path to a member.
#pragma once
#include <limits>
#include <type_traits>

#include <fmt/format.h>

#include "base/gid.hpp"
#include "sim/fault/layer.hpp"
#include "sim/scenario/scenario_schema.hpp"

namespace parley::sim::forms {

using Kind = DocValue::Kind;

/// "the number 2 is not a time; ...": the only sentence for values in a wrong format.
inline std::string wrong(const DocValue& value, std::string_view form) {
  return fmt::format("{} is not {}", describe(value), form);
}
/// A number without its unit: suggests what may have been meant.
inline std::string without_unit(const DocValue& value, std::string_view form, std::string_view unit,
                                std::string_view other) {
  const bool number = value.kind == Kind::integer || value.kind == Kind::real;
  if (!number || value.text.size() + 1 > 20) return wrong(value, form);
  const std::string digits = value.kind == Kind::integer ? std::to_string(value.integer) : value.text;
  if (digits.empty() || digits.front() < '0' || digits.front() > '9') return wrong(value, form);  // -1, nan
  return fmt::format("{} lacks its unit: write \"{}{}\" or \"{}{}\"", describe(value), digits, unit, digits, other);
}

struct Text {
  static constexpr std::size_t octets_max = 4096;
  static std::string form() { return "a text"; }
  static std::string read(const DocValue& value, std::string& out) {
    if (value.kind != Kind::text) return wrong(value, "a text in quotes");
    if (value.text.size() > octets_max)
      return fmt::format("{} octets of text, at most {}", value.text.size(), octets_max);
    out = value.text;
    return {};
  }
  static std::string write(const std::string& in) { return quote(in); }
};

struct Flag {
  static std::string form() { return "true or false"; }
  static std::string read(const DocValue& value, bool& out) {
    if (value.kind != Kind::boolean) return wrong(value, form());
    out = value.boolean;
    return {};
  }
  static std::string write(bool in) { return in ? "true" : "false"; }
};

/// A TOML integer.
template <std::uint64_t Min, std::uint64_t Max>
struct IntegerForm {
  static_assert(Max <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
  static std::string form() {
    return Max == static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())
               ? fmt::format("a number from {}", Min)
               : fmt::format("{}..{}", Min, Max);
  }
  template <class N>
  static std::string read(const DocValue& value, N& out) {
    if (value.kind != Kind::integer || value.integer < static_cast<std::int64_t>(Min) ||
        value.integer > static_cast<std::int64_t>(Max))
      return fmt::format("{} is not a whole number in {}..{}", describe(value), Min, Max);
    out = static_cast<N>(value.integer);
    return {};
  }
  template <class N>
  static std::string write(N in) {
    return std::to_string(in);
  }
};

struct Time {
  static std::string form() { return "a time"; }
  static std::string read(const DocValue& value, Duration& out) {
    constexpr std::string_view words = "a time such as \"2us\", \"1.5s\" or \"10m\"";
    if (value.kind != Kind::text) return without_unit(value, words, "s", "us");
    const auto time = parse_time(value.text);
    if (!time) return wrong(value, words);
    out = *time;
    return {};
  }
  static std::string write(Duration in) { return quote(time_text(in)); }
};

/// A time since the start of the run.
struct Moment {
  static std::string form() { return "a time"; }
  static std::string read(const DocValue& value, Instant& out) {
    if (value.kind == Kind::text && value.text == "never") return out = never, std::string();
    Duration time{};
    std::string error = Time::read(value, time);
    if (error.empty()) out = Instant(time);
    return error;
  }
  static std::string write(Instant in) { return in == never ? "\"never\"" : quote(time_text(in.time_since_epoch())); }
};

struct Rate {
  static std::string form() { return "a rate"; }
  static std::string read(const DocValue& value, std::uint64_t& out) {
    constexpr std::string_view words = "a rate such as \"10Gbps\", \"2.5Gbps\" or \"64kbps\"";
    if (value.kind != Kind::text) return without_unit(value, words, "Gbps", "Mbps");
    const auto rate = parse_rate(value.text);
    if (!rate) return wrong(value, words);
    out = *rate;
    return {};
  }
  static std::string write(std::uint64_t in) { return quote(rate_text(in)); }
};

template <std::uint64_t Min, std::uint64_t Max>
struct Size {
  static std::string form() { return fmt::format("a size, {}..{}", size_text(Min), size_text(Max)); }
  template <class N>
  static std::string read(const DocValue& value, N& out) {
    constexpr std::string_view words = "a size such as \"64KiB\", \"1MiB\" or \"1500B\"";
    if (value.kind != Kind::text) return without_unit(value, words, "B", "KiB");
    const auto size = parse_size(value.text);
    if (!size) return wrong(value, words);
    if (*size < Min || *size > Max) return fmt::format("{} is not {}", describe(value), form());
    out = static_cast<N>(*size);
    return {};
  }
  template <class N>
  static std::string write(N in) {
    return quote(size_text(in));
  }
};

/// For keys called `octets`: the unit is in the name, so a number is enough.
template <std::uint64_t Max>
struct Octets {
  static std::string form() { return fmt::format("0..{} or a size", Max); }
  static std::string read(const DocValue& value, std::uint32_t& out) {
    if (value.kind == Kind::text) return Size<0, Max>::read(value, out);
    return IntegerForm<0, Max>::read(value, out);
  }
  static std::string write(std::uint32_t in) {
    return in >= 4096 && in % 1024 == 0 ? Size<0, Max>::write(in) : std::to_string(in);
  }
};

struct RatioForm {
  static std::string form() { return "a ratio"; }
  static std::string read(const DocValue& value, Ratio& out) {
    constexpr std::string_view words = "a ratio such as \"1%\", \"0.1%\" or \"1/1000\", at most \"100%\"";
    if (value.kind == Kind::real || value.kind == Kind::integer)
      return fmt::format("{} is not a ratio: write \"1%\", \"0.1%\" or \"1/1000\" in quotes", describe(value));
    const auto ratio = value.kind == Kind::text ? parse_ratio(value.text) : std::nullopt;
    if (!ratio) return wrong(value, words);
    out = *ratio;
    return {};
  }
  static std::string write(Ratio in) { return quote(ratio_text(in)); }
};

struct Mask {
  static std::string form() { return "bits"; }
  static std::string read(const DocValue& value, std::optional<std::uint64_t>& out) {
    std::optional<std::uint64_t> mask;
    if (value.kind == Kind::text) mask = parse_mask(value.text);
    if (value.kind == Kind::integer && value.integer >= 0) mask = static_cast<std::uint64_t>(value.integer);
    if (!mask) return wrong(value, "a mask of 64 bits such as 0b1011, 0xff or \"0x8000000000000000\"");
    out = mask;
    return {};
  }
  static std::string write(const std::optional<std::uint64_t>& in) {
    const std::string text = mask_text(*in);
    return *in >> 63 != 0 ? quote(text) : text;  // TOML integers have 63 bits
  }
};

/// Enumerators 0 to Last that have a to_string.
template <class E, E Last>
struct Choice {
  static std::vector<std::string_view> words() {
    std::vector<std::string_view> out;
    for (std::uint32_t i = 0; i <= static_cast<std::uint32_t>(Last); ++i) out.push_back(to_string(static_cast<E>(i)));
    return out;
  }
  static std::string form() { return fmt::format("one of {}", fmt::join(words(), ", ")); }
  static std::string read(const DocValue& value, E& out) {
    const std::vector<std::string_view> all = words();
    if (value.kind != Kind::text) return wrong(value, form());
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i] == value.text) return out = static_cast<E>(i), std::string();
    const std::string_view meant = nearest(value.text, all);
    if (meant.empty()) return wrong(value, form());
    return fmt::format("{} is unknown; did you mean '{}'? ({})", describe(value), meant, form());
  }
  static std::string write(E in) { return quote(to_string(in)); }
};

/// One of the words, or the layer and its kind.
struct MessageWord {
  static std::vector<std::string_view> words() {
    std::vector<std::string_view> out{to_string(MessageKind::any)};
    for (const LayerTable* layer : layers())
      for (const KindRow& kind : layer->kinds) out.push_back(kind.word);
    return out;
  }
  static std::string form() { return fmt::format("one of {}", fmt::join(words(), ", ")); }
  static std::string read(const DocValue& value, MessageKind& out) {
    if (value.kind != Kind::text) return wrong(value, form());
    if (const auto message = parse_message_kind(value.text)) return out = *message, std::string();
    if (const std::string meant = of_layers(value.text); !meant.empty())
      return fmt::format("{} is a kind of more than one layer, or stands without its own: write {}", describe(value),
                         meant);
    const std::string_view meant = nearest(value.text, words());
    if (meant.empty()) return wrong(value, form());
    return fmt::format("{} is unknown; did you mean '{}'? ({})", describe(value), meant, form());
  }
  static std::string write(MessageKind in) { return quote(to_string(in)); }

 private:
  /// For "request": 'arp.request' or 'mpa.request'.
  static std::string of_layers(std::string_view name) {
    std::vector<std::string> out;
    for (const LayerTable* layer : layers())
      for (const KindRow& kind : layer->kinds)
        if (kind.name == name) out.push_back(fmt::format("'{}.{}'", layer->name, kind.name));
    return fmt::format("{}", fmt::join(out, " or "));
  }
};

using RtrForm = Choice<mpa::Rtr, mpa::Rtr::read>;

struct RtrForms {
  static std::string form() { return "an array of send, write, read"; }
  static std::string read(const DocValue& value, mpa::RtrSet& out) {
    if (value.kind != Kind::array) return wrong(value, form());
    mpa::RtrSet set;
    for (const DocValue& item : value.items) {
      const auto rtr = item.kind == Kind::text ? mpa::parse_rtr(item.text) : fail(Errc::invalid_argument);
      if (!rtr || *rtr == mpa::Rtr::none || *rtr == mpa::Rtr::frame) return wrong(item, "one of send, write, read");
      set.send |= *rtr == mpa::Rtr::send;
      set.write |= *rtr == mpa::Rtr::write;
      set.read |= *rtr == mpa::Rtr::read;
    }
    out = set;
    return {};
  }
  static std::string write(const mpa::RtrSet& in) {
    std::vector<std::string> words;
    for (const mpa::Rtr rtr : {mpa::Rtr::send, mpa::Rtr::write, mpa::Rtr::read})
      if (in.has(rtr)) words.push_back(quote(mpa::to_string(rtr)));
    return fmt::format("[{}]", fmt::join(words, ", "));
  }
};

/// IRD and ORD.
struct Depth {
  static std::string form() { return fmt::format("0..{} or \"none\"", mpa::depth_max); }
  static std::string read(const DocValue& value, std::uint16_t& out) {
    if (value.kind == Kind::text && value.text == "none") return out = mpa::depth_not_negotiated, std::string();
    if (value.kind == Kind::text) return wrong(value, form());
    return IntegerForm<0, mpa::depth_max>::read(value, out);
  }
  static std::string write(std::uint16_t in) {
    return in == mpa::depth_not_negotiated ? "\"none\"" : std::to_string(in);
  }
};

/// A multicast group, as an IP address.
struct Group {
  static std::string form() { return "a multicast address"; }
  static std::string read(const DocValue& value, Address& out) {
    constexpr std::string_view words = "a multicast address such as \"239.1.2.3\" or \"ff0e::7174\"";
    const auto address = value.kind == Kind::text ? Address::parse(value.text) : fail(Errc::bad_address);
    if (!address || address->port != 0 || address->scope_id != 0 || !is_multicast(gid_of(*address)))
      return wrong(value, words);
    out = *address;
    return {};
  }
  static std::string write(const Address& in) { return in == Address{} ? std::string() : quote(group_text(in)); }
};

struct PrivateData {
  static constexpr std::uint64_t octets_max = mpa::private_data_room(1);
  static std::string form() { return "a text, \"hex:00ff\", or how many octets"; }
  static std::string read(const DocValue& value, std::string& out) {
    if (value.kind == Kind::integer) {
      std::uint32_t octets = 0;
      std::string error = IntegerForm<0, octets_max>::read(value, octets);
      if (error.empty()) out = filler(octets);
      return error;
    }
    const auto octets = value.kind == Kind::text ? parse_octets(value.text) : std::nullopt;
    if (!octets) return wrong(value, form());
    if (octets->size() > octets_max)
      return fmt::format("{} octets of private data, at most {} (RFC 5044 §7.1.1)", octets->size(), octets_max);
    out = *octets;
    return {};
  }
  static std::string write(const std::string& in) {
    if (in.size() > 8 && in == filler(in.size())) return std::to_string(in.size());
    return quote(octets_text(in));
  }
};

// ---- from a path of members to a Key ------------------------------------------------------------------------------

template <class C, class M>
C owner_of(M C::*);

template <auto First, auto... Rest>
auto& reach(auto& object) {
  if constexpr (sizeof...(Rest) == 0)
    return object.*First;
  else
    return reach<Rest...>(object.*First);
}

template <class Form, auto First, auto... Rest>
struct Member {
  using Owner = decltype(owner_of(First));
  static std::string read(const DocValue& value, Owner& out) { return Form::read(value, reach<First, Rest...>(out)); }
  static std::string write(const Owner& in) {
    const Owner fresh{};
    const auto& value = reach<First, Rest...>(in);
    return value == reach<First, Rest...>(fresh) ? std::string() : Form::write(value);
  }
  static void reset(Owner& out) {
    const Owner fresh{};
    reach<First, Rest...>(out) = reach<First, Rest...>(fresh);
  }
  static std::string standard() {
    const Owner fresh{};
    const auto& value = reach<First, Rest...>(fresh);
    if constexpr (requires { value.has_value(); })
      return {};
    else
      return Form::write(value);
  }
};

template <class Form, auto First, auto... Rest>
constexpr auto key(std::string_view name, std::string_view text) {
  using M = Member<Form, First, Rest...>;
  return Key<typename M::Owner>{name, Form::form, text, M::read, M::write, M::standard, M::reset};
}

}  // namespace parley::sim::forms
