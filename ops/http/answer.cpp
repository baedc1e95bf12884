// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Parses a request and makes its answer, both as text.
#include <string_view>

#include "ops/http/metrics_server.hpp"
#include "ops/metrics/exposition.hpp"
#include "ops/metrics/source.hpp"

namespace parley::ops {
namespace {

std::string response(std::string_view status, std::string_view type, std::string_view body,
                     std::string_view header = {}) {
  std::string out = "HTTP/1.1 ";
  out.append(status).append("\r\nContent-Type: ").append(type).append("\r\n").append(header);
  out.append("Content-Length: ").append(std::to_string(body.size())).append("\r\nConnection: close\r\n\r\n");
  return out.append(body);
}

std::string refusal(std::string_view status, std::string_view sentence, std::string_view header = {}) {
  return response(status, "text/plain; charset=utf-8", std::string(sentence) + "\n", header);
}

/// RFC 9110 §5.6.2
bool is_token(std::string_view text) {
  constexpr std::string_view marks = "!#$%&'*+-.^_`|~";
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!letter && marks.find(c) == std::string_view::npos) return false;
  }
  return !text.empty();
}

/// The path of a target without its query. RFC 9112 §3.2.2: a target may begin with scheme and authority.
std::string_view path_of(std::string_view target) {
  if (const std::size_t scheme = target.find("://"); scheme != std::string_view::npos && target.front() != '/') {
    target.remove_prefix(scheme + 3);
    const std::size_t slash = target.find('/');
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  return target.substr(0, target.find('?'));
}

std::string answer_to(std::string_view line, const MetricsSource& metrics) {
  const std::size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last)
    return refusal("400 Bad Request", "the first line of a request is METHOD TARGET HTTP/1.1");
  const std::string_view method = line.substr(0, first), version = line.substr(last + 1);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  for (const char c : target)
    if (c <= ' ' || c == 0x7F) return refusal("400 Bad Request", "the target has a space or a control character");
  if (!is_token(method) || target.empty() || !version.starts_with("HTTP/"))
    return refusal("400 Bad Request", "the first line of a request is METHOD TARGET HTTP/1.1");
  if (version != "HTTP/1.1" && version != "HTTP/1.0")
    return refusal("505 HTTP Version Not Supported", "HTTP/1.1 and HTTP/1.0 are spoken here");
  if (path_of(target) != "/metrics") return refusal("404 Not Found", "there is /metrics, and nothing else");
  if (method != "GET") return refusal("405 Method Not Allowed", "GET alone is answered", "Allow: GET\r\n");
  return response("200 OK", exposition_content_type, metrics.text());
}

}  // namespace

std::string http_answer(std::string_view request, std::size_t header_max, const MetricsSource& metrics) {
  // RFC 9112 §2.2: empty lines before the request are ignored; a line may end in LF alone.
  while (request.starts_with("\r\n") || request.starts_with("\n")) {
    const std::size_t blank = request.front() == '\r' ? 2 : 1;
    request.remove_prefix(blank);
    header_max -= blank;
  }
  const bool whole = request.find("\n\r\n") != std::string_view::npos || request.find("\n\n") != std::string_view::npos;
  if (!whole) {
    if (request.size() < header_max) return {};
    return refusal("431 Request Header Fields Too Large", "the header of the request is too long");
  }
  std::string_view line = request.substr(0, request.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  std::string answer = answer_to(line, metrics);
  if (line.starts_with("HEAD ")) answer.resize(answer.find("\r\n\r\n") + 4);  // RFC 9110 §9.3.2: no content
  return answer;
}

}  // namespace parley::ops
