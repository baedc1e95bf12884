// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley xrc member`: a member of a domain that is controlled from the keyboard or by a script.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "drivers/xrcd/link.hpp"
#include "tools/rping/session.hpp"
#include "tools/xrc/xrc.hpp"

namespace parley::tools {
namespace {

using xrc::Request;
using xrc::RequestType;

std::optional<std::uint32_t> number(const std::string& text) {
  std::uint32_t out = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), out);
  if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return out;
}
template <class E>
std::optional<E> named(const std::string& text, unsigned count) {
  for (unsigned i = 0; i < count; ++i)
    if (to_string(static_cast<E>(i)) == text) return static_cast<E>(i);
  return std::nullopt;
}

/// Parses a line as a request; none if it is invalid.
std::optional<Request> request_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  const auto word = [&words](std::size_t i) { return i < words.size() ? words[i] : std::string(); };
  const std::string& verb = word(0);
  if (verb == "close" && words.size() == 1) return Request{.ask = RequestType::close};
  if (verb == "force-close" && words.size() == 1) return Request{.ask = RequestType::close, .flags = Request::force};
  const auto n = number(word(1));
  if (verb == "create" || verb == "reserve") {
    if (words.size() > 2 || (words.size() == 2 && !n)) return std::nullopt;
    const int flags = (verb == "reserve" ? Request::reserve : 0) | (n ? Request::has_peer : 0);
    return Request{.ask = RequestType::create,
                   .flags = static_cast<std::uint16_t>(flags),
                   .peer = {.ca_guid = 1, .qpn = n.value_or(0)}};
  }
  for (const auto& [name, ask] : {std::pair("srq", RequestType::add_srq),
                                  {"no-srq", RequestType::remove_srq},
                                  {"other", RequestType::note_other}})
    if (verb == name) return n && words.size() == 2 ? std::optional(Request{.ask = ask, .other = *n}) : std::nullopt;
  const auto tgt = xrc::parse_tgt(word(1));
  if (!tgt) return std::nullopt;
  for (const auto& [name, ask] : {std::pair("register", RequestType::enlist),
                                  {"unregister", RequestType::unregister},
                                  {"query", RequestType::query},
                                  {"publish", RequestType::publish}})
    if (verb == name && words.size() == 2) return Request{.ask = ask, .tgt = *tgt};
  if (verb == "publish" && words.size() == 3)
    if (const auto qpn = number(word(2))) return Request{.ask = RequestType::publish, .tgt = *tgt, .other = *qpn};
  if (verb == "report" && words.size() == 3)
    if (const auto kind = named<xrc::EventKind>(word(2), static_cast<unsigned>(xrc::EventKind::events_lost)))
      return Request{.ask = RequestType::report, .kind = *kind, .tgt = *tgt};
  if (verb == "modify" && words.size() == 4)
    if (const auto state = named<xrc::State>(word(2), static_cast<unsigned>(xrc::State::drain)))
      if (const auto digest = number(word(3)))
        return Request{.ask = RequestType::modify, .state = *state, .tgt = *tgt, .value = *digest};
  if (verb == "route" && words.size() == 3)
    if (const auto srqn = number(word(2))) return Request{.ask = RequestType::route, .tgt = *tgt, .other = *srqn};
  return std::nullopt;
}

class Conversation {
 public:
  Conversation(xrc::Link& link, Output& out) : link_(link), out_(out) {}

  /// False after it has closed its domain.
  bool obey(const std::string& line) {
    if (line.find_first_not_of(" \t") == line.npos) return true;
    const auto request = request_of(line);
    if (!request) {
      out_.text("not understood: " + line);
      out_.object({{"event", "answer"}, {"to", line}, {"said", "not_understood"}});
      return true;
    }
    const auto answer = link_.call(*request);
    const std::string said = answer ? "ok" : xrc_refusal_name(answer.error());
    Json object{{"event", "answer"}, {"to", line}, {"said", said}};
    std::string words = answer ? std::string("ok") : fmt::format("{}: {}", said, answer.error().message());
    if (answer) describe(*request, *answer, object, words);
    out_.text(words);
    out_.object(object);
    return !(answer && request->ask == RequestType::close);
  }

  /// False if it is no longer a member.
  bool listen(Duration longest) {
    for (bool first = true;; first = false) {
      const auto event = link_.wait_event(first ? longest : Duration{});
      if (!event) return false;
      if (!*event) return true;
      const xrc::Event& e = **event;
      out_.text(
          fmt::format("{}: {}{}", to_string(e.tgt), to_string(e.kind), e.sticky ? ", before it was a member" : ""));
      out_.object({{"event", "told"},
                   {"tgt", to_string(e.tgt)},
                   {"kind", to_string(e.kind)},
                   {"code", e.reason},
                   {"sequence", e.sequence},
                   {"merged", e.merged},
                   {"sticky", e.sticky}});
    }
  }

 private:
  static void describe(const Request& request, const xrc::Answer& answer, Json& object, std::string& words) {
    if (answer.tgt.generation != 0) {
      object.update({{"tgt", to_string(answer.tgt)}, {"state", to_string(answer.state)}});
      words = fmt::format("{} {}", to_string(answer.tgt), to_string(answer.state));
    }
    const bool already = (answer.flags & xrc::Answer::already) != 0;
    object["already"] = already;
    if (already) words += ", already";
    if (request.ask == RequestType::unregister) object["thrown_away"] = answer.value;
    if (request.ask == RequestType::route) {
      constexpr std::array<const char*, 4> routes{"delivered", "not_ready", "no_such_srq", "srq_of_other_domain"};
      object["route"] = words = routes.at(answer.value);
    }
  }

  xrc::Link& link_;
  Output& out_;
};

/// The lines of standard input that have arrived. A longer line than line_max is cut off there and marked with "...".
class Lines {
 public:
  /// False at the end of the input.
  bool fill(Duration longest) {
    pollfd waits{STDIN_FILENO, POLLIN, 0};
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(longest).count();
    if (::poll(&waits, 1, static_cast<int>(wait)) <= 0) return true;
    std::array<char, 4096> octets;
    const ssize_t n = ::read(STDIN_FILENO, octets.data(), octets.size());
    if (n < 0) return errno == EINTR;
    text_.append(octets.data(), static_cast<std::size_t>(n));
    return n > 0;
  }
  std::optional<std::string> next() {
    const auto end = text_.find('\n');
    if (end == text_.npos) {
      cut_ = cut_ || text_.size() > line_max;
      text_.resize(std::min(text_.size(), line_max));
      return std::nullopt;
    }
    std::string line = text_.substr(0, std::min(end, line_max));
    if (std::exchange(cut_, false) || end > line_max) line += "...";
    text_.erase(0, end + 1);
    return line;
  }

 private:
  static constexpr std::size_t line_max = 1024;
  std::string text_;
  bool cut_ = false;  // of the line whose end has not arrived
};

}  // namespace

int run_xrc_member(const XrcArgs& args, Output& out) {
  const StopSignals stop;
  int file = -1;
  if (args.file != "private") {
    file = ::open(args.file.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0)
      return out.error(Exit::environment,
                       fmt::format("{} cannot be opened: {}", args.file, std::generic_category().message(errno)));
  }
  const auto link = xrc::Link::open(args.domain, true, file);
  if (file >= 0) ::close(file);  // the link has duplicated it
  if (!link) return xrc_refused(out, link.error(), args.domain);
  out.text("a member");
  out.object({{"event", "member"}, {"epoch", (*link)->epoch()}});
  Conversation session(**link, out);
  Lines lines;
  constexpr Duration turn = std::chrono::milliseconds(5);
  while (!stop.requested()) {
    const bool more = lines.fill(turn);
    while (const auto line = lines.next())
      if (!session.obey(*line)) return code(Exit::ok);
    if (!session.listen(turn)) return out.error(Exit::failed, "no member of the domain any more");
    if (!more) break;
  }
  return code(Exit::ok);
}

}  // namespace parley::tools
