/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Parley's staged QP negotiation in the plugin: docs/negotiation.md. The first pass reorders the octets of each TCP
 * direction, extracts messages, judges them, and stores each with the frame that completes it. Showing a packet, in the
 * first pass or later, only walks the stored messages. */
#ifndef PARLEY_NEG_DISSECTOR_H
#define PARLEY_NEG_DISSECTOR_H

#include "parley/wire/neg.h"
#include "parley_compat.h"
#include "parley_stream.h"

enum {
#define PARLEY_X(name, value, text) PARLEY_NEG_TYPE_##name = value,
  PARLEY_NEG_TYPES(PARLEY_X)
#undef PARLEY_X
#define PARLEY_X(name, value, text) PARLEY_NEG_STAGE_##name = value,
      PARLEY_NEG_STAGES(PARLEY_X)
#undef PARLEY_X
#define PARLEY_X(name, value, text) PARLEY_NEG_ITEM_##name = value,
          PARLEY_NEG_ITEMS(PARLEY_X)
#undef PARLEY_X
#define PARLEY_X(name, type, octets, text) PARLEY_NEG_QP_ITEM_##name = type,
              PARLEY_NEG_QP_ITEMS(PARLEY_X)
#undef PARLEY_X
};

/* Remarks on a message or a direction: X(name, filter, severity). */
#define PARLEY_NEG_REMARKS(X)                 \
  X(PROTOCOL, "other_protocol", PI_ERROR)     \
  X(VERSION, "version", PI_ERROR)             \
  X(TYPE, "type", PI_ERROR)                   \
  X(STAGE, "stage", PI_ERROR)                 \
  X(RESERVED, "reserved", PI_ERROR)           \
  X(LENGTH, "length", PI_ERROR)               \
  X(LONG, "long", PI_NOTE)                    \
  X(ITEM_CUT, "item_cut", PI_ERROR)           \
  X(ITEM_CRITICAL, "item_critical", PI_ERROR) \
  X(ABORT_ITEMS, "abort_items", PI_WARN)      \
  X(HELLO, "hello_not_due", PI_ERROR)         \
  X(WELCOME, "welcome_not_due", PI_ERROR)     \
  X(EARLY_TURN, "early_turn", PI_ERROR)       \
  X(STAGE_ORDER, "stage_order", PI_ERROR)     \
  X(ROUND, "round", PI_ERROR)                 \
  X(AFTER_LAST, "after_last", PI_ERROR)       \
  X(AFTER_ABORT, "after_abort", PI_ERROR)     \
  X(QP, "qp", PI_ERROR)                       \
  X(READY, "ready", PI_ERROR)                 \
  X(HALF, "half_a_message", PI_WARN)          \
  X(MISSING, "missing", PI_NOTE)              \
  X(GAVE_UP, "abort", PI_NOTE)

typedef enum {
#define PARLEY_X(name, filter, severity) PARLEY_NEG_REMARK_##name,
  PARLEY_NEG_REMARKS(PARLEY_X)
#undef PARLEY_X
      PARLEY_NEG_REMARK_COUNT
} parley_neg_remark_kind;

typedef struct parley_neg_remark {
  struct parley_neg_remark* next;
  parley_neg_remark_kind kind;
  const char* text;
} parley_neg_remark;

/* A list; new remarks are appended. */
typedef struct parley_neg_remarks {
  wmem_allocator_t* scope;
  parley_neg_remark *first, *last;
} parley_neg_remarks;

/* Whether the Turns of a session have the format of verbs-* and manual. */
typedef enum { PARLEY_NEG_QP_UNKNOWN, PARLEY_NEG_QP_LIKELY, PARLEY_NEG_QP_YES, PARLEY_NEG_QP_NO } parley_neg_qp;

typedef enum {
  PARLEY_NEG_MESSAGE, /* a whole message, or a header that makes the following octets unreadable */
  PARLEY_NEG_STRANGE, /* other octets in the place of a message */
  PARLEY_NEG_PART,    /* of a message that a later frame completes, or none */
  PARLEY_NEG_NOTE     /* only remarks */
} parley_neg_kind;

enum { PARLEY_NEG_FROM_UNKNOWN, PARLEY_NEG_FROM_INITIATOR, PARLEY_NEG_FROM_RESPONDER };

typedef struct parley_neg_item {
  struct parley_neg_item* next;      /* of the frame */
  struct parley_neg_item* next_part; /* of the same message */
  guint8 kind, from, qp;
  guint32 seq; /* raw, of its first octet */
  guint32 octets;
  const guint8* copy;  /* NULL: its octets are in the frame's own payload */
  guint32 first_frame; /* the frame with its first octet */
  guint32 whole_in;    /* for a part: the frame that completes its message; 0: none */
  parley_neg_remarks remarks;
} parley_neg_item;

struct parley_neg_conn;
typedef struct parley_neg_frame {
  const struct parley_neg_conn* conn;
  parley_neg_item *first, *last;
} parley_neg_frame;

typedef struct parley_neg_header {
  guint8 version, type, stage, flags;
  guint16 round, reserved;
  guint32 length;
} parley_neg_header;

/* ------------------------------------------------------------------ parley_neg_form.c: one message by itself */

void parley_neg_say(parley_neg_remarks* to, parley_neg_remark_kind kind, const char* format, ...) G_GNUC_PRINTF(3, 4);
/* Parses PARLEY_NEG_HEADER_LEN octets. */
parley_neg_header parley_neg_header_of(const guint8* octets);
/* True while octets can still become the start of a message. */
gboolean parley_neg_may_begin(const guint8* octets, guint32 length);
/* Whether PARLEY_NEG_HEADER_LEN octets are a header: with `strict`, one without fault; otherwise with at most one
 * fault. */
gboolean parley_neg_sane(const guint8* octets, gboolean strict);
/* Checks a header, with the same sentences as the implementation. False: the octets behind it cannot be interpreted. */
gboolean parley_neg_check_header(const parley_neg_header* h, parley_neg_remarks* to);
/* Checks the body, which has as many octets as the header announces. */
void parley_neg_check_body(const parley_neg_header* h, const guint8* body, parley_neg_qp qp, parley_neg_remarks* to);
/* Whether a Turn of the stage info has the format of verbs-* and manual. */
gboolean parley_neg_like_qp(const guint8* body, guint32 length);
/* The value of the first item of that type in `length` octets of items, and its length in `octets`; NULL: none. */
const guint8* parley_neg_find_item(const guint8* items, guint32 length, guint16 type, guint16* octets);

/* ------------------------------------------------------------------ parley_neg_conn.c: one TCP connection */

typedef struct parley_neg_conn parley_neg_conn;

/* `confirmed`: it is a negotiation, without a check. `midway`: its first octets may be missing. */
parley_neg_conn* parley_neg_conn_new(gboolean confirmed, gboolean midway);
/* Sets the sequence number of that side's first octet. */
void parley_neg_conn_sync(parley_neg_conn* conn, guint side, guint32 seq);
/* Sets the side that opened the TCP connection. */
void parley_neg_conn_opened_by(parley_neg_conn* conn, guint side);
/* First pass only. */
void parley_neg_conn_segment(parley_neg_conn* conn, packet_info* pinfo, guint side, const parley_tcp_segment* segment,
                             guint16 flags);
/* The connection certainly carries a negotiation. */
gboolean parley_neg_conn_confirmed(const parley_neg_conn* conn);
/* The connection carries no negotiation. */
gboolean parley_neg_conn_refuted(const parley_neg_conn* conn);
parley_neg_frame* parley_neg_frame_of(packet_info* pinfo);

/* ------------------------------------------------------------------ parley_neg_show.c */

void parley_neg_show(tvbuff_t* payload, guint32 seq, packet_info* pinfo, proto_tree* top);
void parley_neg_show_register(void);

/* Whether the private data of a connection manager's message consists of negotiation messages: at least one, then only
 * zeros. */
gboolean parley_neg_in_private_data(tvbuff_t* tvb, gint at, gint length);
void parley_neg_show_private_data(tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree, gint at, gint length);

extern int proto_parley_neg;
/* parley_neg.c */
void parley_neg_register(void);
void parley_neg_handoff(void);

#endif
