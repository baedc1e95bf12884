/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* Rules of the staged QP negotiation (neg.), docs/negotiation.md. Rows as in parley/wire/rules.h, which includes this. */
#ifndef PARLEY_WIRE_RULES_NEG_H
#define PARLEY_WIRE_RULES_NEG_H

/* QPng §N is rule N of docs/negotiation.md. */
#define PARLEY_NEG_RULES(X)                                                                                           \
  X(neg_magic, "neg.magic", "QPng §1.1", error, headers, "Every message begins with the magic.")                      \
  X(neg_version, "neg.version", "QPng §1.2", error, headers, "The version of a message is 1.")                        \
  X(neg_type, "neg.type", "QPng §1.3", error, headers, "The type of a message is 1 to 4.")                            \
  X(neg_stage, "neg.stage", "QPng §1.4", error, headers,                                                              \
    "A Turn has stage 1 to 3, Hello and Welcome have 0; an Abort has any.")                                           \
  X(neg_reserved, "neg.reserved", "QPng §1.5", error, headers,                                                        \
    "Flags other than 0x80 of a Turn, and reserved, are 0.")                                                          \
  X(neg_length, "neg.length", "QPng §1.6", error, headers, "A message announces at most 1048576 octets.")             \
  X(neg_body, "neg.body", "QPng §1.6", note, headers,                                                                 \
    "A session takes messages of up to 65536 octets unless it is configured to take more; longer ones are not read.") \
  X(neg_cut, "neg.cut", "QPng §1.6", warning, end, "A side does not end in the middle of a message.")                 \
  X(neg_item_cut, "neg.item-cut", "QPng §2.1", error, payload, "Items fit into what holds them.")                     \
  X(neg_item_unknown, "neg.item-unknown", "QPng §2.2", error, payload,                                                \
    "An item of an unknown type has its top bit clear.")                                                              \
  X(neg_abort_item_cut, "neg.abort-item-cut", "QPng §2.1", warning, payload,                                          \
    "Items fit into an Abort; a session ends with less to say if they do not.")                                       \
  X(neg_abort_item_unknown, "neg.abort-item-unknown", "QPng §2.2", warning, payload,                                  \
    "An item of an unknown type in an Abort has its top bit clear.")                                                  \
  X(neg_hello, "neg.hello", "QPng §3.1", error, side, "The initiator's first message is a Hello, and no other is.")   \
  X(neg_welcome, "neg.welcome", "QPng §3.2", error, side,                                                             \
    "The responder's first message is a Welcome, unless it is an Abort, and no other is.")                            \
  X(neg_turn_early, "neg.turn-early", "QPng §3.3", error, side,                                                       \
    "A Turn follows the Hello or the Welcome of its sender.")                                                         \
  X(neg_stage_order, "neg.stage-order", "QPng §3.4", error, both,                                                     \
    "Stages come in their order, each when both sides are through with the one before; done only if the Hello "       \
    "announced it.")                                                                                                  \
  X(neg_round, "neg.round", "QPng §3.5", error, side, "Rounds of a side in a stage count from 1, by 1.")              \
  X(neg_after_last, "neg.after-last", "QPng §3.6", error, side,                                                       \
    "After its last Turn of a stage, a side sends only Turns of that stage that are last and empty.")                 \
  X(neg_after_abort, "neg.after-abort", "QPng §3.7", error, side, "Nothing follows a side's Abort.")                  \
  X(neg_after_end, "neg.after-end", "QPng §3.8", error, both, "Nothing follows the last stage.")                      \
  X(neg_qp_header, "neg.qp-header", "QPng §4.1", error, payload,                                                      \
    "The attributes of a queue pair have 4 octets at least.")                                                         \
  X(neg_qp_version, "neg.qp-version", "QPng §4.1", error, payload, "The attributes of a queue pair have version 1.")  \
  X(neg_qp_item_length, "neg.qp-item-length", "QPng §4.2", error, payload,                                            \
    "Items of a queue pair's attributes have the lengths of the table.")                                              \
  X(neg_qp_item_missing, "neg.qp-item-missing", "QPng §4.3", error, payload,                                          \
    "QPN and PSN are among the attributes of a queue pair, with UD the Q_Key too.")                                   \
  X(neg_ready_word, "neg.ready-word", "QPng §4.4", error, payload, "In the stage ready a side says 1, 2 or 3.")

#endif
