// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "base/json.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"

namespace parley {

namespace {

void quote(std::string& out, std::string_view text) {
  constexpr std::string_view escaped = "\b\t\n\f\r\"\\", letters = "btnfr\"\\";
  out += '"';
  while (!text.empty()) {
    const char c = text.front();
    const auto [length, whole] = utf8_sequence(text);
    if (const std::size_t known = escaped.find(c); known != std::string_view::npos)
      (out += '\\') += letters[known];
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += whole ? text.substr(0, length) : "\xEF\xBF\xBD";
    text.remove_prefix(length);
  }
  out += '"';
}

}  // namespace

/// Writes a value and those in it.
class JsonText {
 public:
  JsonText(std::string (*real)(double), int indent) : real_(real), indent_(indent) {}

  void write(const Json& json) {
    std::visit([this](const auto& value) { put(value); }, json.value_);
  }
  std::string take() { return std::move(out_); }

 private:
  void put(std::nullptr_t) { out_ += "null"; }
  void put(bool value) { out_ += value ? "true" : "false"; }
  void put(std::int64_t value) { out_ += std::to_string(value); }
  void put(std::uint64_t value) { out_ += std::to_string(value); }
  void put(double value) { out_ += real_(value); }
  void put(const std::string& text) { quote(out_, text); }
  void put(const Json::Array& values) {
    enclose("[]", values, [this](const Json& value) { write(value); });
  }
  void put(const Json::Object& members) {
    enclose("{}", members, [this](const JsonMember& member) {
      quote(out_, member.key);
      out_ += indent_ > 0 ? ": " : ":";
      write(member.value);
    });
  }

  template <class Items, class One>
  void enclose(const char* brackets, const Items& items, One one) {
    out_ += brackets[0];
    ++depth_;
    for (const auto& item : items) {
      if (&item != &items.front()) out_ += ',';
      line();
      one(item);
    }
    --depth_;
    if (!items.empty()) line();
    out_ += brackets[1];
  }
  void line() {
    if (indent_ == 0) return;
    out_ += '\n';
    out_.append(depth_ * static_cast<std::size_t>(indent_), ' ');
  }

  std::string (*real_)(double);
  int indent_;
  std::size_t depth_ = 0;
  std::string out_;
};

Json::Json() = default;
Json::Json(bool value) : value_(value) {}
Json::Json(double value) : value_(value) {}
Json::Json(const char* text) : value_(std::string(text)) {}
Json::Json(std::string_view text) : value_(std::string(text)) {}
Json::Json(std::string text) : value_(std::move(text)) {}
Json::Json(Signed value) : value_(value.value) {}
Json::Json(Unsigned value) : value_(value.value) {}
Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(const Json& other) = default;
Json& Json::operator=(Json&& other) noexcept = default;
Json::~Json() = default;

Json::Json(std::initializer_list<JsonMember> members) : value_(Object()) {
  for (const JsonMember& member : members) (*this)[member.key] = std::move(member.value);
}

Json Json::array() {
  Json out;
  out.value_ = Array();
  return out;
}

Json Json::object() {
  Json out;
  out.value_ = Object();
  return out;
}

Json& Json::operator[](std::string_view key) {
  if (value_.index() == 0) value_ = Object();
  Object& members = std::get<Object>(value_);
  const auto found =
      std::find_if(members.begin(), members.end(), [&](const auto& member) { return member.key == key; });
  if (found != members.end()) return found->value;
  return members.emplace_back(JsonMember{std::string(key), {}}).value;
}

void Json::push_back(Json value) {
  if (value_.index() == 0) value_ = Array();
  std::get<Array>(value_).push_back(std::move(value));
}

void Json::update(Json object) {
  for (const JsonMember& member : std::get<Object>(object.value_)) (*this)[member.key] = std::move(member.value);
}

void Json::erase(std::string_view key) {
  std::erase_if(std::get<Object>(value_), [&](const JsonMember& member) { return member.key == key; });
}

std::string Json::dump(std::string (*real)(double), int indent) const {
  JsonText text(real, indent);
  text.write(*this);
  return text.take();
}

}  // namespace parley
