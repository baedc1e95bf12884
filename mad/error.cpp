// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "mad/error.hpp"

#include <utility>

#include <fmt/format.h>

#include "wire/mad/decode.hpp"

namespace parley::mad {

namespace {

constexpr std::string_view texts[] = {
#define PARLEY_X(name, text) text,
    PARLEY_MAD_FAULTS(PARLEY_X)
#undef PARLEY_X
};

constexpr std::string_view names[] = {
#define PARLEY_X(name, text) #name,
    PARLEY_MAD_FAULTS(PARLEY_X)
#undef PARLEY_X
};

std::string title_of(ConstBytes request) {
  const auto decoded = wire::mad::decode(request);
  return decoded ? wire::mad::title(*decoded) : "a request";
}

void add_packet(std::string& out, std::string_view what, ConstBytes mad) {
  const auto decoded = wire::mad::decode(mad);
  if (decoded) out += fmt::format("{}: {}", what, wire::mad::dump(*decoded, mad));
}

}  // namespace

std::string_view text_of(Fault fault) { return texts[static_cast<std::size_t>(fault)]; }
std::string_view word_of(Fault fault) { return names[static_cast<std::size_t>(fault)]; }

MadError::MadError(Fault fault, std::string why) : data_(std::make_unique<Data>()) {
  data_->fault = fault;
  data_->why = std::move(why);
}
MadError::MadError(const MadError& other) : data_(std::make_unique<Data>(*other.data_)) {}
MadError& MadError::operator=(const MadError& other) {
  if (this != &other) data_ = std::make_unique<Data>(*other.data_);
  return *this;
}

// IBA §15.2.4.
bool MadError::is_no_records() const {
  constexpr std::uint8_t no_records = 3;
  return fault() == Fault::class_status && class_status() == no_records && data_->request.size() > 1 &&
         data_->request[1] == static_cast<std::uint8_t>(wire::mad::MgmtClass::subn_adm);
}

MadError& MadError::about(std::string line) & {
  data_->context.push_back(std::move(line));
  return *this;
}
MadError&& MadError::about(std::string line) && { return std::move(about(std::move(line))); }

std::string MadError::message() const {
  std::string out;
  if (!data_->request.empty()) out = fmt::format("{} to {}: ", title_of(data_->request), data_->path.text());
  out += text_of(fault());
  if (fault() == Fault::timeout) out += fmt::format(" in {} {}", tries(), tries() == 1 ? "try" : "tries");
  if (data_->status != 0) {
    const auto decoded = wire::mad::decode(data_->reply);
    const std::string words = decoded ? wire::mad::status_text(*decoded) : std::string();
    out += words.empty() ? fmt::format(": status 0x{:04X}", data_->status) : ": " + words;
  }
  if (!data_->why.empty()) out += ": " + data_->why;
  return out;
}

std::string MadError::dump(Detail detail) const {
  std::string out;
  for (std::size_t i = context().size(); i-- > 0;) out += (out.empty() ? "" : "+ ") + context()[i] + "\n";
  out += (out.empty() ? "" : "+ ") + message() + "\n";
  if (detail == Detail::lines) return out;
  out += fmt::format("by {}, sent {} {}\n", data_->path.text(), tries(), tries() == 1 ? "time" : "times");
  if (detail == Detail::path) return out;
  add_packet(out, "request", request());
  add_packet(out, "reply", reply());
  return out;
}

}  // namespace parley::mad
