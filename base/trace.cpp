// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The two renderers of trace events.
#include "base/trace.hpp"

#include <fmt/format.h>

#include <concepts>
#include <type_traits>
#include <utility>

#include "base/json_text.hpp"
#include "base/text.hpp"

namespace parley::trace {
namespace {

template <std::unsigned_integral T>
std::string value_text(T value) {
  if constexpr (std::is_same_v<T, bool>)
    return value ? "yes" : "no";
  else
    return std::to_string(value);
}
std::string value_text(int value) { return std::to_string(value); }
std::string value_text(Duration value) { return brief_duration_text(value); }
std::string value_text(const Address& value) { return value.to_string(); }

/// A single word unchanged, other text in quotation marks. `text` is not empty.
std::string quoted(std::string_view text) {
  if (text.find_first_of(" \"\n\\=") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}
std::string value_text(std::string_view value) { return value.empty() ? "-" : quoted(value); }

struct TextFields {
  std::string& out;
  template <class T>
  void operator()(std::string_view key, const T& value) {
    out += fmt::format(" {}={}", key, value_text(value));
  }
  void operator()(std::string_view key, Duration value) {
    out += fmt::format(" {}={}", key, trace::quoted(value_text(value)));  // std::quoted would match, too
  }
  void word(std::string_view, std::string_view value) { out += fmt::format(" {}", value); }
};

struct JsonFields {
  Json object = Json::object();
  template <class T>
  void operator()(std::string_view key, const T& value) {
    object[key] = value;
  }
  void operator()(std::string_view key, const Address& value) { object[key] = value.to_string(); }
  void operator()(std::string_view key, Duration value) { object[fmt::format("{}_us", key)] = in_microseconds(value); }
  void word(std::string_view key, std::string_view value) { object[key] = value; }
};

/// Whether a message event is for a sent message.
template <class E>
bool sends(const E& event) {
  if constexpr (requires { event.sent; })
    return event.sent;
  else
    return false;
}

}  // namespace

std::string_view to_string(Level level) {
  switch (level) {
    case Level::error: return "error";
    case Level::warn: return "warn";
    case Level::info: return "info";
    case Level::debug: return "debug";
    case Level::trace: return "trace";
  }
  return "unknown";
}

Level level_of(const Event& event) {
  return std::visit([](const auto& e) { return e.level; }, event);
}

std::string_view name_of(const Event& event) {
  return std::visit([](const auto& e) { return e.name; }, event);
}

bool is_of_sending(const Event& event) {
  return std::visit([](const auto& e) { return sends(e); }, event);
}

std::string to_text(const Event& event) {
  std::string out(name_of(event));
  TextFields fields{out};
  std::visit([&fields](const auto& e) { e.fields(fields); }, event);
  return out;
}

std::string to_text(const Record& record) {
  std::string out;
  if (record.connection != 0) out = fmt::format("#{} ", record.connection);
  if (record.peer.port != 0) out += record.peer.to_string() + ' ';
  return out + to_text(record.event);
}

std::string to_text(const Record& record, Instant start) {
  return fmt::format("{} {:5} {}", decimal_seconds(record.at - start, 6), to_string(level_of(record.event)),
                     to_text(record));
}

Json to_json(const Record& record, Instant start) {
  JsonFields fields;
  std::visit([&fields](const auto& e) { e.fields(fields); }, record.event);
  Json out{{"event", "trace"},
           {"name", name_of(record.event)},
           {"level", to_string(level_of(record.event))},
           {"at_us", in_microseconds(record.at - start)},
           {"connection", record.connection}};
  if (record.local.port != 0) out["local"] = record.local.to_string();
  if (record.peer.port != 0) out["peer"] = record.peer.to_string();
  out["fields"] = std::move(fields.object);
  return out;
}

}  // namespace parley::trace
