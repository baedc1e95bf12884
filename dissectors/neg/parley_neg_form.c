/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Checks one message: its header, its items, and the content of Turns of verbs-* and manual. The sentences are the same
 * as those with which Parley's sessions refuse such a message. */
#include "parley_neg.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { stage_max = PARLEY_NEG_STAGE_done, session_length_max = 65536 /* the default of a session */ };

static guint16 be16(const guint8* p) { return (guint16)(p[0] << 8 | p[1]); }
static guint32 be32(const guint8* p) { return (guint32)be16(p) << 16 | be16(p + 2); }

void parley_neg_say(parley_neg_remarks* to, parley_neg_remark_kind kind, const char* format, ...) {
  parley_neg_remark* const remark = wmem_new0(to->scope, parley_neg_remark);
  va_list values;
  va_start(values, format);
  remark->kind = kind;
  remark->text = wmem_strdup_vprintf(to->scope, format, values);
  va_end(values);
  if (to->last != NULL)
    to->last->next = remark;
  else
    to->first = remark;
  to->last = remark;
}

/* ------------------------------------------------------------------ header */

parley_neg_header parley_neg_header_of(const guint8* p) {
  const parley_neg_header h = {.version = p[4],
                               .type = p[5],
                               .stage = p[6],
                               .flags = p[7],
                               .round = be16(p + 8),
                               .reserved = be16(p + 10),
                               .length = be32(p + 12)};
  return h;
}

gboolean parley_neg_may_begin(const guint8* octets, guint32 length) {
  return memcmp(octets, PARLEY_NEG_MAGIC, MIN(length, PARLEY_NEG_MAGIC_LEN)) == 0;
}

static gboolean known_type(guint8 type) {
  switch (type) {
#define PARLEY_X(name, value, text) case value:
    PARLEY_NEG_TYPES(PARLEY_X)
#undef PARLEY_X
    return TRUE;
    default: return FALSE;
  }
}

static gboolean stage_fits(const parley_neg_header* h) {
  const gboolean turn = h->type == PARLEY_NEG_TYPE_turn, abort = h->type == PARLEY_NEG_TYPE_abort;
  return abort || turn == (h->stage != 0);
}

static gboolean reserved_set(const parley_neg_header* h) {
  return (h->flags & ~PARLEY_NEG_FLAG_LAST) != 0 || h->reserved != 0 ||
         ((h->flags & PARLEY_NEG_FLAG_LAST) != 0 && h->type != PARLEY_NEG_TYPE_turn);
}

gboolean parley_neg_sane(const guint8* octets, gboolean strict) {
  if (!parley_neg_may_begin(octets, PARLEY_NEG_MAGIC_LEN)) return FALSE;
  const parley_neg_header h = parley_neg_header_of(octets);
  const int faults = (h.version != PARLEY_NEG_VERSION) + !known_type(h.type) +
                     (h.stage > stage_max || (known_type(h.type) && !stage_fits(&h))) + reserved_set(&h) +
                     (h.length > PARLEY_NEG_LENGTH_MAX);
  return faults <= (strict ? 0 : 1);
}

/* Only a known version defines the flag's meaning and the end of a message. */
gboolean parley_neg_check_header(const parley_neg_header* h, parley_neg_remarks* to) {
  if (h->version != PARLEY_NEG_VERSION) {
    parley_neg_say(to, PARLEY_NEG_REMARK_VERSION, "the message has version %u; this side supports %u", h->version,
                   PARLEY_NEG_VERSION);
    return FALSE;
  }
  if (!known_type(h->type))
    parley_neg_say(to, PARLEY_NEG_REMARK_TYPE, "the message has type %u", h->type);
  else if (h->stage > stage_max)
    parley_neg_say(to, PARLEY_NEG_REMARK_STAGE, "the message has stage %u", h->stage);
  else if (!stage_fits(h))
    parley_neg_say(to, PARLEY_NEG_REMARK_STAGE, "a message of type %u has stage %u", h->type, h->stage);
  else if (reserved_set(h))
    parley_neg_say(to, PARLEY_NEG_REMARK_RESERVED, "reserved bits are set: flags %u, reserved %u", h->flags,
                   h->reserved);
  if (h->length > PARLEY_NEG_LENGTH_MAX) {
    parley_neg_say(to, PARLEY_NEG_REMARK_LENGTH, "the message announces %u octets; at most %u", h->length,
                   PARLEY_NEG_LENGTH_MAX);
    return FALSE;
  }
  if (h->length > session_length_max)
    parley_neg_say(to, PARLEY_NEG_REMARK_LONG, "a message of %u octets; a session accepts at most %u by default",
                   h->length, session_length_max);
  return TRUE;
}

/* ------------------------------------------------------------------ items */

static gboolean known_item(guint16 type) {
  switch (type) {
#define PARLEY_X(name, value, text) case value:
    PARLEY_NEG_ITEMS(PARLEY_X)
#undef PARLEY_X
    return TRUE;
    default: return FALSE;
  }
}

const guint8* parley_neg_find_item(const guint8* items, guint32 length, guint16 type, guint16* octets) {
  while (length >= PARLEY_NEG_ITEM_LEN) {
    const guint16 own = be16(items + 2);
    if (own > length - PARLEY_NEG_ITEM_LEN) return NULL;
    if (be16(items) == type) {
      *octets = own;
      return items + PARLEY_NEG_ITEM_LEN;
    }
    items += PARLEY_NEG_ITEM_LEN + own;
    length -= PARLEY_NEG_ITEM_LEN + own;
  }
  return NULL;
}

/* An Abort with any content is valid: the session ends in any case. */
static void check_items(const guint8* p, guint32 left, gboolean abort, parley_neg_remarks* to) {
  while (left > 0) {
    const guint16 length = left < PARLEY_NEG_ITEM_LEN ? 0 : be16(p + 2);
    if (left < PARLEY_NEG_ITEM_LEN || length > left - PARLEY_NEG_ITEM_LEN) {
      parley_neg_say(to, abort ? PARLEY_NEG_REMARK_ABORT_ITEMS : PARLEY_NEG_REMARK_ITEM_CUT,
                     "an item of %u octets is cut off", length);
      return;
    }
    const guint16 type = be16(p);
    if (!known_item(type) && (type & PARLEY_NEG_ITEM_CRITICAL) != 0) {
      parley_neg_say(to, abort ? PARLEY_NEG_REMARK_ABORT_ITEMS : PARLEY_NEG_REMARK_ITEM_CRITICAL,
                     "item %u is unknown and must not be skipped", type);
      return;
    }
    p += PARLEY_NEG_ITEM_LEN + length;
    left -= PARLEY_NEG_ITEM_LEN + length;
  }
}

/* ------------------------------------------------------------------ Turns of verbs-* and manual */

/* Octets of an item of that type; -1: unknown type. */
static int qp_item_octets(guint16 type) {
  switch (type) {
#define PARLEY_X(name, value, octets, text) \
  case value: return octets;
    PARLEY_NEG_QP_ITEMS(PARLEY_X)
#undef PARLEY_X
    default: return -1;
  }
}

/* Reports faults of a queue pair's items. */
static void check_qp_items(const guint8* p, guint32 left, gboolean ud, parley_neg_remarks* to) {
  gboolean qpn = FALSE, psn = FALSE, qkey = FALSE;
  while (left > 0) {
    const guint16 type = left < 2 ? 0 : be16(p), length = left < PARLEY_NEG_ITEM_LEN ? 0 : be16(p + 2);
    if (left < PARLEY_NEG_ITEM_LEN || length > left - PARLEY_NEG_ITEM_LEN) {
      parley_neg_say(to, PARLEY_NEG_REMARK_ITEM_CUT, "item 0x%04x of %u octets is cut off", type, length);
      return;
    }
    const int due = qp_item_octets(type);
    if (due < 0 && (type & PARLEY_NEG_ITEM_CRITICAL) != 0) {
      parley_neg_say(to, PARLEY_NEG_REMARK_ITEM_CRITICAL, "item 0x%04x is unknown and must not be skipped", type);
      return;
    }
    if (due >= 0 && due != length) {
      parley_neg_say(to, PARLEY_NEG_REMARK_QP, "item 0x%04x has %u octets, %d are expected", type, length, due);
      return;
    }
    qpn = qpn || type == PARLEY_NEG_QP_ITEM_qpn;
    psn = psn || type == PARLEY_NEG_QP_ITEM_psn;
    qkey = qkey || type == PARLEY_NEG_QP_ITEM_qkey;
    p += PARLEY_NEG_ITEM_LEN + length;
    left -= PARLEY_NEG_ITEM_LEN + length;
  }
  if (!qpn || !psn)
    parley_neg_say(to, PARLEY_NEG_REMARK_QP, "the item %s is missing", qpn ? "psn" : "qpn");
  else if (ud && !qkey)
    parley_neg_say(to, PARLEY_NEG_REMARK_QP, "the item qkey is missing; UD needs it");
}

static void check_qp_info(const guint8* body, guint32 length, parley_neg_remarks* to) {
  enum { UD = 3 };
  if (length < PARLEY_NEG_QP_HEADER_LEN)
    parley_neg_say(to, PARLEY_NEG_REMARK_QP, "%u octet%s, %d are expected", length, length == 1 ? "" : "s",
                   PARLEY_NEG_QP_HEADER_LEN);
  else if (body[0] != PARLEY_NEG_QP_VERSION)
    parley_neg_say(to, PARLEY_NEG_REMARK_QP, "the attributes have version %u; this side supports %u", body[0],
                   PARLEY_NEG_QP_VERSION);
  else
    check_qp_items(body + PARLEY_NEG_QP_HEADER_LEN, length - PARLEY_NEG_QP_HEADER_LEN, body[1] == UD, to);
}

gboolean parley_neg_like_qp(const guint8* body, guint32 length) {
  enum { transport_max = 4 };
  return length >= PARLEY_NEG_QP_HEADER_LEN + PARLEY_NEG_ITEM_LEN + 4 && body[0] == PARLEY_NEG_QP_VERSION &&
         body[1] >= 1 && body[1] <= transport_max && be16(body + 2) == 0 && be16(body + 4) == PARLEY_NEG_QP_ITEM_qpn &&
         be16(body + 6) == 4;
}

static void check_ready(const guint8* body, guint32 length, parley_neg_remarks* to) {
  if (length == 1 && body[0] >= 1 && body[0] <= 3) return;
  char hex[3 * 32 + 1] = "";
  for (guint32 i = 0; i < MIN(length, 32); i++) snprintf(hex + 3 * i, 4, "%02x ", body[i]);
  parley_neg_say(to, PARLEY_NEG_REMARK_READY, "%s%sis not a word of the stage ready", hex, length > 32 ? "... " : "");
}

void parley_neg_check_body(const parley_neg_header* h, const guint8* body, parley_neg_qp qp, parley_neg_remarks* to) {
  switch (h->type) {
    case PARLEY_NEG_TYPE_hello:
    case PARLEY_NEG_TYPE_welcome: check_items(body, h->length, FALSE, to); return;
    case PARLEY_NEG_TYPE_abort: check_items(body, h->length, TRUE, to); return;
    case PARLEY_NEG_TYPE_turn:
      if (qp != PARLEY_NEG_QP_YES || h->length == 0) return;
      if (h->stage == PARLEY_NEG_STAGE_info) check_qp_info(body, h->length, to);
      if (h->stage == PARLEY_NEG_STAGE_ready) check_ready(body, h->length, to);
      return;
    default: return;
  }
}
