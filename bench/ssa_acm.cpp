// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "bench/ssa_acm.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <stdexcept>

#include "drivers/private_folder.hpp"
#include "drivers/ssa/acm_service.hpp"

namespace parley::bench {
namespace {

using ssa::acm::header_octets;
using ssa::acm::record_octets;
using wire::mad::PathRecord;

constexpr std::size_t message_octets = header_octets + record_octets;  // of a request by LID, and of its answer
constexpr double goal_per_second = 100'000;

class AcmClient {
 public:
  AcmClient(const std::string& place, std::uint16_t lids)
      : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)), lids_(lids) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    place.copy(address.sun_path, sizeof address.sun_path - 1);
    if (::connect(fd_.fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("no connection to the service");
  }

  /// Asks for `window` paths at once until the time is over.
  Sample run(double seconds, std::size_t window) {
    Bytes answers(window * message_octets);
    Stopwatch watch;
    double count = 0;
    while (watch.wall_s() < seconds) {
      const Bytes asked = requests(window);
      if (::send(fd_.fd, asked.data(), asked.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(asked.size()) ||
          ::recv(fd_.fd, answers.data(), answers.size(), MSG_WAITALL) != static_cast<ssize_t>(answers.size()))
        throw std::runtime_error("the service has closed the connection");
      for (std::size_t i = 0; i < window; ++i)
        if (ssa::acm::parse_header(ConstBytes(answers).subspan(i * message_octets))->status !=
            ssa::acm::Status::success)
          throw std::runtime_error("a path is missing");
      count += static_cast<double>(window);
    }
    return watch.stop(count);
  }

 private:
  Bytes requests(std::size_t window) {
    Bytes out;
    for (std::size_t i = 0; i < window; ++i) {
      next_ = next_ * 1103515245 + 12345;
      const auto lid = [&](unsigned shift) { return static_cast<std::uint16_t>(1 + (next_ >> shift) % lids_); };
      const PathRecord path = PathRecord().set(PathRecord::slid, lid(16)).set(PathRecord::dlid, lid(32));
      append(out, ssa::acm::Header{.length = message_octets});
      ssa::acm::Record record{.type = ssa::acm::record_type::path};
      std::copy(path.octets().begin(), path.octets().end(), record.info.begin());
      append(out, record);
    }
    return out;
  }

  asio_driver::Descriptor fd_;
  std::uint16_t lids_;
  std::uint64_t next_ = 1;
};

}  // namespace

void measure_acm(Report& report, const Settings& settings, std::shared_ptr<const ssa::PathMap> map) {
  const auto folder = PrivateFolder::create("parley-bench-");
  const std::string place = folder == nullptr ? "" : folder->path() + "/acm.sock";
  auto service = ssa_driver::AcmService::open({.sockets = {place}});
  if (!service) throw std::runtime_error(service.error().message());
  auto data = std::make_shared<ssa::acm::Data>();
  const auto lids = static_cast<std::uint16_t>(map->lids() - 1);
  data->map = std::move(map);
  if (const auto started = (*service)->start(data); !started) throw std::runtime_error(started.error().message());
  AcmClient client(place, lids);
  const auto samples = alternate({{"one", [&] { return client.run(settings.seconds, 1); }},
                                  {"many", [&] { return client.run(settings.seconds, 64); }}},
                                 settings.rounds);
  report.section("Requests of ibacm's clients by LID, over a Unix socket");
  const auto add = [&](const char* what, const std::vector<Sample>& of, bool has_goal) {
    const double figure = median_of(of, Reading::per_second);
    report.add({.what = what,
                .unit = "requests/s",
                .figure = figure,
                .limit_name = has_goal ? "goal" : "",
                .limit = has_goal ? goal_per_second : 0,
                .ratio = has_goal ? figure / goal_per_second : 0,
                .goal_kind = has_goal ? Row::Goal::ratio_at_least : Row::Goal::none,
                .goal = 1});
    report.add({.what = std::string(what) + ", client included",
                .unit = "us of CPU a request",
                .figure = 1e6 / median_of(of, Reading::per_cpu_second)});
  };
  add("one by one, as ib_acme", samples[0], true);
  add("64 at a time", samples[1], false);
}

}  // namespace parley::bench
