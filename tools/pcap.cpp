// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/pcap.hpp"

#include <fmt/format.h>

namespace parley::tools {

void add_filter(CLI::App& sub, CaptureFilter& filter) {
  sub.add_option_function<std::string>(
         "--filter",
         [&filter](const std::string& expression) {
           auto made = pcap_driver::PacketFilter::make(expression);
           if (!made) throw CLI::ValidationError("--filter", fmt::format("'{}': {}", expression, made.error()));
           filter = std::move(*made);
         },
         "Read only the packets that this filter of tcpdump passes (pcap-filter(7)): 'tcp port 7471'")
      ->type_name("EXPRESSION");
}

void register_pcap(CLI::App& app, Context& context) {
  CLI::App* pcap = app.add_subcommand(
      "pcap", "Checks captures of MPA connections and live traffic; draws, compares and anonymizes captures");
  pcap->require_subcommand(1);
  add_pcap_check(*pcap, context);
  add_pcap_ladder(*pcap, context);
  add_pcap_live(*pcap, context);
  add_pcap_anonymize(*pcap, context);
  add_pcap_matrix(*pcap, context);
}

}  // namespace parley::tools
