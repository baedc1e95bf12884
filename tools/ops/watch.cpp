// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/ops/watch.hpp"

#include "tools/ops/probes.hpp"

namespace parley::tools {

Or<void> Watch::open(const LogArgs& log, const MetricsArgs& metrics, Output& out, ops::Metrics::CommandKind of) {
  if (log.any()) {
    auto opened = LogSink::open(log, out);
    if (!opened) return tl::unexpected(opened.error());
    log_ = std::move(*opened);
    sinks_.add(*log_);
  }
  if (metrics.any()) {
    auto opened = MetricsOutput::open(metrics, out, of);
    if (!opened) return tl::unexpected(opened.error());
    metrics_ = std::move(*opened);
    sinks_.add(metrics_->sink());
  }
  probes_ = make_probes();
  if (probes_) sinks_.add(*probes_);
  return {};
}

void Watch::turn(int fd, Instant until) {
  metrics_->wait(fd, until);
  metrics_->turn();
}

Or<void> Watch::finish() {
  Or<void> ended;
  if (metrics_) ended = metrics_->finish();
  if (log_)
    if (auto written = log_->finish(); !written && ended) ended = std::move(written);
  return ended;
}

}  // namespace parley::tools
