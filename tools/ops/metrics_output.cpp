// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/ops/metrics_output.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "base/escape.hpp"
#include "drivers/asio/machine_loop.hpp"
#include "drivers/asio/replacement.hpp"
#include "drivers/clock.hpp"
#include "tools/command.hpp"
#include "tools/ops/outlet.hpp"
#include "tools/report.hpp"

namespace parley::tools {
namespace {

constexpr std::uint16_t metrics_port = 9464;  // the customary port of OpenTelemetry's Prometheus exporters
constexpr int turns_max = 64;                 // HTTP turns per turn of the program

tl::unexpected<CommandError> cannot_write(const std::string& path) {
  return command_error(Exit::environment,
                       fmt::format("metrics: cannot write '{}': {}", printable(path, false), std::strerror(errno)));
}

/// The target of a symbolic link, so that the link itself is kept; none if it has no target.
std::optional<std::string> behind_links(const std::string& path) {
  struct stat what {};
  if (::lstat(path.c_str(), &what) != 0 || !S_ISLNK(what.st_mode)) return path;
  char* real = ::realpath(path.c_str(), nullptr);
  if (real == nullptr) return std::nullopt;
  std::string out = real;
  std::free(real);
  return out;
}

/// For a path that is not a regular file, or that has no name under which it could be replaced.
Or<void> append_to(const std::string& path, std::string_view content) {
  const int fd = open_outlet(path);
  if (fd < 0) return cannot_write(path);
  const bool written = write_all(fd, content);
  const int why = errno;
  ::close(fd);
  errno = why;
  if (!written) return cannot_write(path);
  return {};
}

}  // namespace

void add_metrics_options(Command sub, MetricsArgs& args) {
  sub.option("--metrics", args.file, "Write metrics to this file, for Prometheus, now and then and at the end")
      .type("FILE");
  add_duration(sub, "--metrics-interval", args.interval, "How often (0: only at the start and at the end)");
  sub.option("--metrics-http", args.http, "Answer GET /metrics here; PORT alone is one of 127.0.0.1, 0 any free one")
      .type("[ADDRESS:]PORT");
}

Or<Endpoint> parse_metrics_endpoint(const std::string& text) {
  const bool port_alone = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  auto endpoint = parse_endpoint(port_alone ? "127.0.0.1:" + text : text, metrics_port);
  if (!endpoint) endpoint.error().text = "--metrics-http: " + endpoint.error().text;
  return endpoint;
}

Or<void> replace_file(const std::string& path, std::string_view content) {
  struct stat what {};
  const bool there = ::stat(path.c_str(), &what) == 0;
  if ((there && !S_ISREG(what.st_mode)) || names_descriptor(path)) return append_to(path, content);
  const auto target = behind_links(path);
  if (!target) return cannot_write(path);
  // Another program reads the file.
  const mode_t mask = ::umask(0);
  ::umask(mask);
  Replacement fresh(*target);
  if (fresh.write(content, there ? what.st_mode & 0777 : 0644 & ~mask) && fresh.close() && fresh.take_name()) return {};
  return cannot_write(path);
}

ops::PacketCounts packet_counts(const RoceCounters& sockets, const std::vector<RoceDropped>& dropped) {
  ops::PacketCounts counts{.sent = sockets.sent, .received = sockets.received, .unsent = sockets.unsent};
  for (const RoceDropped& of : dropped) counts.dropped.emplace_back(of.reason, of.packets);
  return counts;
}

MetricsOutput::MetricsOutput(const MetricsArgs& args, std::unique_ptr<ops::Metrics> counted,
                             const ops::MetricsSource& source)
    : args_(args), counted_(std::move(counted)), source_(source) {}
MetricsOutput::~MetricsOutput() = default;

Or<std::unique_ptr<MetricsOutput>> MetricsOutput::open(const MetricsArgs& args, Output& out,
                                                       ops::Metrics::CommandKind of) {
  auto counted = std::make_unique<ops::Metrics>(PARLEY_VERSION, of);
  const ops::MetricsSource& source = *counted;
  return begin(std::unique_ptr<MetricsOutput>(new MetricsOutput(args, std::move(counted), source)), out);
}

Or<std::unique_ptr<MetricsOutput>> MetricsOutput::open(const MetricsArgs& args, Output& out,
                                                       const ops::MetricsSource& source) {
  return begin(std::unique_ptr<MetricsOutput>(new MetricsOutput(args, nullptr, source)), out);
}

Or<std::unique_ptr<MetricsOutput>> MetricsOutput::begin(std::unique_ptr<MetricsOutput> metrics, Output& out) {
  const MetricsArgs& args = metrics->args_;
  if (!args.http.empty())
    if (const auto listening = metrics->listen(out); !listening) return tl::unexpected(listening.error());
  if (args.file.empty()) return metrics;
  if (const auto written = replace_file(args.file, metrics->source_.text()); !written)
    return tl::unexpected(written.error());
  if (args.interval > Duration{}) metrics->write_at_ = Instant{};
  return metrics;
}

Or<void> MetricsOutput::listen(Output& out) {
  const auto endpoint = parse_metrics_endpoint(args_.http);
  if (!endpoint) return tl::unexpected(endpoint.error());
  const auto addresses = resolve(*endpoint);
  if (!addresses) return tl::unexpected(addresses.error());
  auto loop = asio_driver::MachineLoop::open(server_, {.receive_buffer = 8192, .streams_max = 64});
  if (!loop) return command_error(Exit::environment, "cannot open sockets: " + message_of(loop.error()));
  loop_ = std::move(*loop);
  server_.listen(addresses->front());
  while (!server_.listening() && !server_.failure()) loop_->run_once(std::chrono::milliseconds(10));
  if (!server_.listening())
    return command_error(Exit::environment, fmt::format("metrics: cannot listen on {}: {}",
                                                        addresses->front().to_string(), message_of(server_.failure())));
  const std::string url = fmt::format("http://{}/metrics", server_.listening()->to_string());
  out.text("metrics at " + url);
  out.object({{"event", "metrics"}, {"url", url}, {"port", server_.listening()->port}});
  return {};
}

void MetricsOutput::wait(int fd, Instant until) {
  const Instant now = clock_now();
  until = std::min(until, next_deadline());
  // Rounded up: otherwise the last millisecond would be a busy loop.
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::max(until - now, Duration{}));
  std::array<pollfd, 2> fds{{{fd, POLLIN, 0}, {loop_ ? loop_->fd() : -1, POLLIN, 0}}};
  (void)::poll(fds.data(), fds.size(), static_cast<int>(std::min<std::int64_t>(left.count(), 1000)));
}

void MetricsOutput::add_to(std::vector<pollfd>& polls) const {
  if (loop_) polls.push_back({loop_->fd(), POLLIN, 0});
}

Instant MetricsOutput::next_deadline() const { return loop_ ? std::min(write_at_, loop_->next_deadline()) : write_at_; }

void MetricsOutput::turn() {
  for (int i = 0; loop_ && i < turns_max && loop_->run_once(Duration{}); ++i) {
  }
  const Instant now = clock_now();
  if (now < write_at_) return;
  // The first turn follows open(), which has written the file already. A write error is not reported here: finish()
  // writes again and reports it.
  if (write_at_ != Instant{}) (void)replace_file(args_.file, source_.text());
  write_at_ = now + std::min<Duration>(args_.interval, std::chrono::hours(24 * 365));
}

Or<void> MetricsOutput::finish() {
  loop_.reset();
  if (args_.file.empty()) return {};
  return replace_file(args_.file, source_.text());
}

}  // namespace parley::tools
