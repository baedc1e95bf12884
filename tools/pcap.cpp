// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/pcap.hpp"

namespace parley::tools {

void register_pcap(CLI::App& app, Context& context) {
  CLI::App* pcap =
      app.add_subcommand("pcap", "Checks captures of MPA connections, draws, compares and anonymizes them");
  pcap->require_subcommand(1);
  add_pcap_check(*pcap, context);
  add_pcap_ladder(*pcap, context);
  add_pcap_anonymize(*pcap, context);
  add_pcap_matrix(*pcap, context);
}

}  // namespace parley::tools
