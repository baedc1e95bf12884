// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A JSON value for output. Nothing in Parley reads JSON. Objects print their keys in the order of insertion.
//
//   Json object{{"event", "summary"}, {"good", 3}};
//   object["times"].push_back(12.5);
//
// The header is kept cheap to include: all but the shortest members are in json.cpp.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace parley {

struct JsonMember;

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<JsonMember>;

  Json();  ///< null
  Json(std::nullptr_t) : Json() {}
  Json(bool value);
  Json(double value);
  Json(const char* text);
  Json(std::string_view text);
  Json(std::string text);
  template <std::signed_integral T>
  Json(T value) : Json(Signed{value}) {}
  template <std::unsigned_integral T>
  Json(T value) : Json(Unsigned{value}) {}
  template <class T>
  Json(const std::vector<T>& values) : Json(array()) {
    for (const T& value : values) push_back(value);
  }
  /// An object; its values are moved out of the list.
  Json(std::initializer_list<JsonMember> members);
  static Json array();
  static Json object();

  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();

  /// The member of that name; it is created if it does not exist. Null becomes an object.
  Json& operator[](std::string_view key);
  /// Null becomes an array.
  void push_back(Json value);
  /// Sets each member of `object` in this one.
  void update(Json object);
  void erase(std::string_view key);

  /// On one line if `indent` is 0. `real` formats numbers with a fraction. Octets that are not UTF-8 become U+FFFD.
  std::string dump(std::string (*real)(double), int indent = 0) const;

 private:
  struct Signed {
    std::int64_t value;
  };
  struct Unsigned {
    std::uint64_t value;
  };
  explicit Json(Signed value);
  explicit Json(Unsigned value);
  using Value = std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object>;
  friend class JsonText;

  Value value_;
};

struct JsonMember {
  std::string key;
  mutable Json value;  ///< mutable: an initializer list hands out constants, and copying whole trees is expensive
};

}  // namespace parley
