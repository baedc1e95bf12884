// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "bench/libfabric_peer.hpp"

#ifndef PARLEY_HAVE_LIBFABRIC

namespace parley::bench {

std::string libfabric_missing(const std::string&) { return "built without libfabric (Debian: libfabric-dev)"; }
Sample libfabric_keep_open(const std::string&, long, long, double) { return {}; }

}  // namespace parley::bench

#else

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "bench/raw_epoll.hpp"

namespace parley::bench {
namespace {

void need(int result, const char* what) {
  if (result != 0) throw std::runtime_error(std::string(what) + ": " + fi_strerror(-result));
}

using InfoPtr = std::unique_ptr<fi_info, decltype(&fi_freeinfo)>;

InfoPtr info_of(const std::string& provider, std::uint64_t flags) {
  const InfoPtr hints(fi_allocinfo(), fi_freeinfo);
  hints->ep_attr->type = FI_EP_MSG;
  hints->caps = FI_MSG;
  hints->mode = FI_CONTEXT;
  hints->addr_format = FI_SOCKADDR_IN;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED;
  hints->fabric_attr->prov_name = ::strdup(provider.c_str());  // Freed by fi_freeinfo.
  fi_info* found = nullptr;
  const int result = fi_getinfo(FI_VERSION(1, 15), "127.0.0.1", "7300", flags, hints.get(), &found);
  return {result == 0 ? found : nullptr, fi_freeinfo};
}

/// One thread polls both event queues. Nothing is closed, because the process ends afterwards.
class Connector {
 public:
  explicit Connector(const std::string& provider)
      : listen_info_(info_of(provider, FI_SOURCE)), connect_info_(info_of(provider, 0)) {
    if (!listen_info_ || !connect_info_)
      throw std::runtime_error("fi_getinfo: no " + provider + " endpoint on loopback");
    need(fi_fabric(listen_info_->fabric_attr, &fabric_, nullptr), "fi_fabric");
    fi_eq_attr queue{};
    queue.wait_obj = FI_WAIT_UNSPEC;
    need(fi_eq_open(fabric_, &queue, &responder_events_, nullptr), "fi_eq_open");
    need(fi_eq_open(fabric_, &queue, &initiator_events_, nullptr), "fi_eq_open");
    need(fi_domain(fabric_, connect_info_.get(), &domain_, nullptr), "fi_domain");
    fi_cq_attr completions{};
    completions.format = FI_CQ_FORMAT_CONTEXT;
    completions.size = 1024;
    need(fi_cq_open(domain_, &completions, &cq_, nullptr), "fi_cq_open");
    need(fi_passive_ep(fabric_, listen_info_.get(), &passive_, nullptr), "fi_passive_ep");
    need(fi_pep_bind(passive_, &responder_events_->fid, 0), "fi_pep_bind");
    need(fi_listen(passive_), "fi_listen");
  }

  Sample keep_open(long n, double seconds_max) {
    to_start_ = n;
    initiators_up_ = responders_up_ = 0;
    const Stopwatch watch;
    for (int i = 0; i < in_flight; ++i) start();
    while ((initiators_up_ < n || responders_up_ < n) && watch.wall_s() < seconds_max) {
      responder_turn();
      initiator_turn();
    }
    return watch.stop(static_cast<double>(std::min(initiators_up_, responders_up_)));
  }

 private:
  fid_ep* endpoint(fi_info* info, fid_eq* events) {
    fid_ep* ep = nullptr;
    need(fi_endpoint(domain_, info, &ep, nullptr), "fi_endpoint");
    need(fi_ep_bind(ep, &events->fid, 0), "fi_ep_bind");
    need(fi_ep_bind(ep, &cq_->fid, FI_SEND | FI_RECV), "fi_ep_bind");
    need(fi_enable(ep), "fi_enable");
    return ep;
  }

  void start() {
    if (to_start_-- <= 0) return;
    fid_ep* ep = endpoint(connect_info_.get(), initiator_events_);
    need(fi_connect(ep, connect_info_->dest_addr, private_data_.data(), private_data_.size()), "fi_connect");
  }

  /// The event's number; 0: there is none. A failed connection ends the bench.
  std::uint32_t next(fid_eq* events) {
    std::uint32_t event = 0;
    const ssize_t n = fi_eq_read(events, &event, entry_.data(), entry_.size(), 0);
    if (n > 0) return event;
    if (n == -FI_EAVAIL) {
      fi_eq_err_entry error{};
      fi_eq_readerr(events, &error, 0);
      throw std::runtime_error(std::string("connection failed: ") + fi_strerror(error.err));
    }
    return 0;
  }

  void responder_turn() {
    switch (next(responder_events_)) {
      case FI_CONNREQ: {
        fi_eq_cm_entry request{};
        std::memcpy(&request, entry_.data(), sizeof request);
        fid_ep* ep = endpoint(request.info, responder_events_);
        need(fi_accept(ep, private_data_.data(), private_data_.size()), "fi_accept");
        fi_freeinfo(request.info);
        break;
      }
      case FI_CONNECTED: ++responders_up_; break;
      default: break;
    }
  }

  void initiator_turn() {
    if (next(initiator_events_) != FI_CONNECTED) return;
    ++initiators_up_;
    start();
  }

  InfoPtr listen_info_, connect_info_;
  fid_fabric* fabric_ = nullptr;
  fid_eq* responder_events_ = nullptr;
  fid_eq* initiator_events_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_cq* cq_ = nullptr;
  fid_pep* passive_ = nullptr;
  long to_start_ = 0, initiators_up_ = 0, responders_up_ = 0;
  std::array<char, 16> private_data_{};
  std::array<char, 512> entry_{};
};

}  // namespace

std::string libfabric_missing(const std::string& provider) {
  if (info_of(provider, 0)) return {};
  return "libfabric has no provider \"" + provider + "\" here";
}

Sample libfabric_keep_open(const std::string& provider, long n, long more, double seconds_max) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("pipe failed");
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    Sample sample;
    try {
      Connector connector(provider);
      sample = connector.keep_open(n, seconds_max);
      if (more > 0) sample = connector.keep_open(more, seconds_max);
    } catch (const std::exception& error) {
      (void)!::write(2, error.what(), std::strlen(error.what()));
      (void)!::write(2, "\n", 1);
    }
    (void)!::write(ends[1], &sample, sizeof sample);
    ::_exit(0);
  }
  ::close(ends[1]);
  Sample sample;
  if (::read(ends[0], &sample, sizeof sample) != static_cast<ssize_t>(sizeof sample)) sample = {};
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return sample;
}

}  // namespace parley::bench

#endif
