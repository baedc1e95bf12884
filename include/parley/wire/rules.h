/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* The rules for captures, in one table. `parley pcap check` and all other checks take the clause and severity of a finding
 * from its row; docs/pcap-check.md and `parley pcap rules` list the rules. Plain C11 so that the C++ code and the Wireshark
 * plugin share it.
 *
 * X(name, id, clause, severity, needs, sentence)
 *   name      C name: the id with _ for . and -
 *   id        the rule's name in findings, --ignore and --severity; never changed once released
 *   clause    the document and section that require it
 *   severity  error, warning or note, as in docs/pcap-check.md; a rule with a severity per situation is split in two
 *   needs     what a capture must contain to prove a violation: one of PARLEY_RULE_NEEDS
 *   sentence  the requirement, or the text of a note
 *
 * To add one: docs/pcap-check.md, "How to add a rule". */
#ifndef PARLEY_WIRE_RULES_H
#define PARLEY_WIRE_RULES_H

#include "parley/wire/rules_ib.h"
#include "parley/wire/rules_mpa.h"
#include "parley/wire/rules_neg.h"
#include "parley/wire/rules_rdmap.h"

/* X(name, text) */
#define PARLEY_RULE_NEEDS(X)                                                  \
  X(headers, "the headers of one packet or FPDU")                             \
  X(payload, "all octets of one packet or FPDU, none cut by the snap length") \
  X(set_up, "the packet and the set-up of its connection")                    \
  X(side, "what the same side sent before")                                   \
  X(both, "both directions")                                                  \
  X(end, "both directions, to the end of the connection")

#define PARLEY_RULES(X)        \
  PARLEY_MPA_SETUP_RULES(X)    \
  PARLEY_MPA_ENHANCED_RULES(X) \
  PARLEY_MPA_FRAMING_RULES(X)  \
  PARLEY_DDP_RULES(X)          \
  PARLEY_RDMAP_RULES(X)        \
  PARLEY_IB_RULES(X)           \
  PARLEY_NEG_RULES(X)

#endif
