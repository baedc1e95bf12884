/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Trees, columns and expert items of MPA: shows what the first pass stored with the frame. */
#include <epan/expert.h>
#include <string.h>

#include "parley_crc.h"
#include "parley_mpa.h"
#include "parley_rdmap.h"
#include "parley_text.h"

static int hf_conn, hf_from, hf_type, hf_key, hf_flags, hf_m, hf_c, hf_r, hf_s, hf_res, hf_rev, hf_pd_length;
static int hf_enhanced, hf_a, hf_b, hf_enh_c, hf_d, hf_ird, hf_ord;
static int hf_fpdu, hf_ulpdu_length, hf_pad, hf_crc, hf_crc_status, hf_crc_computed, hf_marker, hf_marker_res,
    hf_fpduptr, hf_position, hf_rtr, hf_rtr_agreed, hf_first_frame, hf_part, hf_whole_in;
static gint ett_mpa = -1, ett_flags = -1, ett_enhanced = -1, ett_marker = -1;
static expert_field ei_startup_error, ei_startup_warning, ei_startup_note, ei_crc, ei_marker, ei_early_responder,
    ei_rtr, ei_rtr_frame, ei_rtr_unannounced, ei_pad, ei_bad_length, ei_lost, ei_found, ei_early_initiator,
    ei_not_startup, ei_startup_cut, ei_end, ei_end_warning, ei_end_error;

static const value_string side_names[] = {{PARLEY_INITIATOR, "initiator"}, {PARLEY_RESPONDER, "responder"}, {0, NULL}};
static const value_string type_names[] = {{PARLEY_KEY_REQ, "Request"},
                                          {PARLEY_KEY_REP, "Reply"},
                                          {PARLEY_KEY_RTR, "Rtr (2007)"},
                                          {PARLEY_KEY_RTR_HEX, "Rtr (2007, spelt RtR)"},
                                          {PARLEY_KEY_OTHER, "unknown startup frame"},
                                          {0, NULL}};
static const value_string rtr_names[] = {{PARLEY_RTR_FRAME, "Rtr frame"},
                                         {PARLEY_RTR_SEND, "zero-length Send"},
                                         {PARLEY_RTR_WRITE, "zero-length RDMA Write"},
                                         {PARLEY_RTR_READ, "zero-length RDMA Read"},
                                         {0, NULL}};

typedef struct scene {
  tvbuff_t* tvb; /* the payload */
  guint32 seq;   /* of its first octet */
  packet_info* pinfo;
  proto_tree* top;
} scene;

/* ------------------------------------------------------------------ findings */

static void count(packet_info* pinfo, parley_conn* conn, int severity) {
  if (pinfo->fd->visited) return;
  if (severity == PI_ERROR) conn->errors++;
  if (severity == PI_WARN) conn->warnings++;
}

static void show_remarks(packet_info* pinfo, proto_item* item, const parley_remark* remark) {
  for (; remark != NULL; remark = remark->next)
    expert_add_info_format(pinfo, item,
                           remark->severity == PI_ERROR  ? &ei_startup_error
                           : remark->severity == PI_WARN ? &ei_startup_warning
                                                         : &ei_startup_note,
                           "%s", remark->text);
}

/* ------------------------------------------------------------------ an item's octets */

static tvbuff_t* octets_of(const scene* s, const parley_item* item, const char* name) {
  if (item->copy != NULL) {
    tvbuff_t* const tvb = tvb_new_child_real_data(s->tvb, item->copy, item->known, (gint)item->octets);
    add_new_data_source(s->pinfo, tvb, name);
    return tvb;
  }
  const guint32 at = item->seq - s->seq;
  if (at > tvb_captured_length(s->tvb) || item->known > tvb_captured_length(s->tvb) - at) return NULL;
  return tvb_new_subset_length_caplen(s->tvb, (gint)at, (gint)item->known, (gint)item->octets);
}

/* ------------------------------------------------------------------ startup frames */

static void show_enhanced(proto_tree* tree, tvbuff_t* tvb, gint at) {
  proto_tree* const both =
      proto_item_add_subtree(proto_tree_add_item(tree, hf_enhanced, tvb, at, PARLEY_MPA_ENH_LEN, ENC_NA), ett_enhanced);
  proto_tree_add_item(both, hf_a, tvb, at, 2, ENC_BIG_ENDIAN);
  proto_tree_add_item(both, hf_b, tvb, at, 2, ENC_BIG_ENDIAN);
  proto_tree_add_item(both, hf_ird, tvb, at, 2, ENC_BIG_ENDIAN);
  proto_tree_add_item(both, hf_enh_c, tvb, at + 2, 2, ENC_BIG_ENDIAN);
  proto_tree_add_item(both, hf_d, tvb, at + 2, 2, ENC_BIG_ENDIAN);
  proto_tree_add_item(both, hf_ord, tvb, at + 2, 2, ENC_BIG_ENDIAN);
}

static void describe_startup(wmem_strbuf_t* out, const parley_startup* s) {
  wmem_strbuf_append_printf(out, "rev=%u", s->revision);
  static const struct {
    guint8 mask;
    const char* text;
  } flags[] = {
      {PARLEY_MPA_FLAG_M, " M"}, {PARLEY_MPA_FLAG_C, " C"}, {PARLEY_MPA_FLAG_R, " R"}, {PARLEY_MPA_FLAG_S, " S"}};
  for (guint i = 0; i < G_N_ELEMENTS(flags); i++)
    if ((s->flags & flags[i].mask) != 0) wmem_strbuf_append(out, flags[i].text);
  if (s->enhanced)
    wmem_strbuf_append_printf(out, "%s%s%s%s ird=%u ord=%u", (s->ird & PARLEY_MPA_ENH_A) != 0 ? " A" : "",
                              (s->ird & PARLEY_MPA_ENH_B) != 0 ? "+B" : "",
                              (s->ord & PARLEY_MPA_ENH_C) != 0 ? "+C" : "",
                              (s->ord & PARLEY_MPA_ENH_D) != 0 ? "+D" : "", s->ird & PARLEY_MPA_ENH_DEPTH_MASK,
                              s->ord & PARLEY_MPA_ENH_DEPTH_MASK);
  const guint own = s->enhanced ? PARLEY_MPA_ENH_LEN : 0;
  if (s->pd_length > own) wmem_strbuf_append_printf(out, " pd=%u", s->pd_length - own);
}

static void startup_fields(proto_tree* tree, tvbuff_t* tvb, const parley_startup* s, guint key) {
  static int* const flags[] = {&hf_m, &hf_c, &hf_r, &hf_s, &hf_res, NULL};
  proto_tree_add_item(tree, hf_key, tvb, 0, PARLEY_MPA_KEY_LEN, ENC_ASCII);
  proto_item_set_generated(proto_tree_add_uint(tree, hf_type, tvb, 0, PARLEY_MPA_KEY_LEN, key));
  proto_tree_add_bitmask(tree, tvb, PARLEY_MPA_FLAGS_OFF, hf_flags, ett_flags, flags, ENC_BIG_ENDIAN);
  proto_tree_add_item(tree, hf_rev, tvb, PARLEY_MPA_REV_OFF, 1, ENC_BIG_ENDIAN);
  proto_tree_add_item(tree, hf_pd_length, tvb, PARLEY_MPA_PD_LENGTH_OFF, 2, ENC_BIG_ENDIAN);
  if (s->enhanced) show_enhanced(tree, tvb, PARLEY_MPA_HEADER_LEN);
}

static void show_startup(const scene* s, const parley_startup_item* item) {
  const parley_startup* const seen = &item->seen;
  tvbuff_t* const tvb = octets_of(s, &item->item, "MPA startup frame");
  if (tvb == NULL) return;
  wmem_strbuf_t* const text = wmem_strbuf_new(s->pinfo->pool, NULL);
  describe_startup(text, seen);
  const char* const name = val_to_str_const(seen->key, type_names, "startup frame");
  parley_info_add(s->pinfo->cinfo, wmem_strdup_printf(s->pinfo->pool, "MPA %s %s", name, wmem_strbuf_get_str(text)));
  proto_item* const top = proto_tree_add_protocol_format(s->top, proto_parley, tvb, 0, (gint)item->item.known,
                                                         "iWARP MPA %s: %s", name, wmem_strbuf_get_str(text));
  proto_tree* const tree = proto_item_add_subtree(top, ett_mpa);
  show_remarks(s->pinfo, top, item->remarks);
  if (tree != NULL) {
    proto_item_set_generated(proto_tree_add_uint(tree, hf_conn, tvb, 0, 0, item->item.conn->number));
    proto_item_set_generated(proto_tree_add_uint(tree, hf_from, tvb, 0, 0, item->item.from));
    startup_fields(tree, tvb, seen, seen->key);
  }
  const guint head = PARLEY_MPA_HEADER_LEN + (seen->enhanced ? PARLEY_MPA_ENH_LEN : 0);
  if (tvb_captured_length(tvb) <= head) return;
  parley_private_show(tvb_new_subset_remaining(tvb, (gint)head), s->pinfo, tree, item->item.conn, item->item.from);
}

/* ------------------------------------------------------------------ FPDUs */

static void show_markers(const scene* s, proto_tree* tree, tvbuff_t* tvb, const parley_fpdu* f) {
  const guint32 phase = (guint32)(f->pdu.position % PARLEY_MPA_MARKER_INTERVAL);
  guint32 m = phase == 0 ? 0 : PARLEY_MPA_MARKER_INTERVAL - phase;
  for (; m + PARLEY_MPA_MARKER_LEN <= f->item.known; m += PARLEY_MPA_MARKER_INTERVAL) {
    proto_item* const item = proto_tree_add_item(tree, hf_marker, tvb, (gint)m, PARLEY_MPA_MARKER_LEN, ENC_NA);
    proto_tree* const sub = proto_item_add_subtree(item, ett_marker);
    proto_tree_add_item(sub, hf_marker_res, tvb, (gint)m, 2, ENC_BIG_ENDIAN);
    proto_tree_add_item(sub, hf_fpduptr, tvb, (gint)m + 2, 2, ENC_BIG_ENDIAN);
    proto_item_set_text(item, "Marker, FPDUPTR %u", tvb_get_ntohs(tvb, (gint)m + 2));
    if (f->marker_wrong && f->marker_at == m)
      expert_add_info_format(s->pinfo, item, &ei_marker,
                             "FPDUPTR is %u, the FPDU began %u octets before the marker [RFC 5044 §4.3]", f->marker_ptr,
                             f->marker_expected);
  }
}

static void show_crc(proto_tree* tree, tvbuff_t* tvb, const parley_fpdu* f) {
  const gint at = (gint)(f->item.octets - PARLEY_MPA_CRC_LEN);
  proto_item* item = NULL;
  if (f->item.known >= f->item.octets)
    item = proto_tree_add_item(tree, hf_crc, tvb, at, PARLEY_MPA_CRC_LEN, ENC_LITTLE_ENDIAN);
  /* For a good CRC, as nearly all are, the status below is enough. */
  if (f->crc != PARLEY_CRC_GOOD)
    proto_item_append_text(item, "%s",
                           f->crc == PARLEY_CRC_OFF   ? " [not used on this connection]"
                           : f->crc == PARLEY_CRC_BAD ? " [incorrect]"
                                                      : " [octets are missing]");
  const guint status = f->crc == PARLEY_CRC_GOOD  ? PROTO_CHECKSUM_E_GOOD
                       : f->crc == PARLEY_CRC_BAD ? PROTO_CHECKSUM_E_BAD
                                                  : PROTO_CHECKSUM_E_UNVERIFIED;
  proto_item_set_generated(proto_tree_add_uint(tree, hf_crc_status, tvb, at, 0, status));
  if (f->crc != PARLEY_CRC_BAD || f->item.known < f->item.octets) return;
  const guint32 computed = parley_crc32c(tvb_get_ptr(tvb, 0, at), (size_t)at);
  proto_item_set_generated(proto_tree_add_uint(tree, hf_crc_computed, tvb, at, PARLEY_MPA_CRC_LEN, computed));
}

static void finding(const scene* s, const parley_fpdu* f, proto_item* item, expert_field* field, int severity,
                    const char* text) {
  count(s->pinfo, f->item.conn, severity);
  expert_add_info_format(s->pinfo, item, field, "%s", text);
}

static const char* agreed_kinds(wmem_allocator_t* scope, guint8 agreed) {
  wmem_strbuf_t* const out = wmem_strbuf_new(scope, NULL);
  for (guint kind = PARLEY_RTR_SEND; kind <= PARLEY_RTR_READ; kind++)
    if ((agreed & (1 << kind)) != 0) wmem_strbuf_append_printf(out, " [%s]", val_to_str_const(kind, rtr_names, ""));
  return wmem_strbuf_get_str(out);
}

static void fpdu_findings(const scene* s, const parley_fpdu* f, proto_item* item) {
  if (f->crc == PARLEY_CRC_BAD)
    finding(s, f, item, &ei_crc, PI_ERROR,
            "the CRC is wrong: nothing of this half may be delivered any more "
            "[RFC 5044 §4.4, §8]");
  if (f->marker_wrong) count(s->pinfo, f->item.conn, PI_ERROR);
  if (f->too_early)
    finding(s, f, item, &ei_early_responder, PI_ERROR,
            "the responder sent an FPDU before it had received one (rule 4): nothing of the initiator's after the "
            "Request was acknowledged by then [RFC 5044 §7.1.2]");
  if (f->rtr_wrong)
    finding(s, f, item, &ei_rtr, PI_ERROR,
            wmem_strdup_printf(
                s->pinfo->pool, "the initiator's first FPDU is %s%s, not an RTR of an agreed kind%s [RFC 6581 §9.2]",
                f->rtr == PARLEY_RTR_NONE ? "a ULP message" : "a ", val_to_str_const(f->rtr, rtr_names, ""),
                agreed_kinds(s->pinfo->pool, f->item.conn->rtr_agreed)));
  if (f->no_rtr_frame)
    finding(s, f, item, &ei_rtr_frame, PI_ERROR,
            "the initiator sent an FPDU first although the Rtr frame was agreed, S on both sides [OFA 2007-10 Rtr §2]");
  if (f->took_rtr_for_fpdu)
    finding(s, f, item, &ei_rtr_frame, PI_ERROR,
            "the responder took the agreed Rtr frame for an FPDU: the S of its Reply was an echo of reserved bits "
            "[RFC 5044 §7.1.1]");
  if (f->pdu.is_rtr && !f->item.conn->peer_to_peer)
    finding(s, f, item, &ei_rtr_unannounced, PI_NOTE,
            "the initiator's first FPDU is empty: an RTR by configuration, nothing announced it (RFC 6581 §9.2 came "
            "later)");
  if (f->pad_not_zero) finding(s, f, item, &ei_pad, PI_ERROR, "pad octets are not 0 [RFC 5044 §4.1]");
}

/* Only the ULPDU: in place, or assembled without the markers. */
static tvbuff_t* ulpdu_of(const scene* s, tvbuff_t* tvb, const parley_fpdu* f) {
  const guint32 head = parley_lead_of(f) + PARLEY_MPA_LEN_LEN;
  const guint32 body = f->item.known > head ? f->item.known - head : 0;
  const guint32 length = f->pdu.ulpdu_length;
  if (!f->markers) return tvb_new_subset_length_caplen(tvb, (gint)head, (gint)MIN(body, length), (gint)length);
  const guint32 wire = f->item.octets - head - PARLEY_MPA_CRC_LEN;
  guint8* const clean = (guint8*)wmem_alloc(s->pinfo->pool, wire + 1);
  const guint32 have = parley_without_markers(tvb_get_ptr(tvb, (gint)head, (gint)MIN(body, wire)), MIN(body, wire),
                                              f->pdu.position + head, clean);
  tvbuff_t* const ulpdu = tvb_new_child_real_data(tvb, clean, MIN(have, length), (gint)length);
  add_new_data_source(s->pinfo, ulpdu, "ULPDU without markers");
  return ulpdu;
}

static void fpdu_fields(const scene* s, proto_tree* tree, tvbuff_t* tvb, const parley_fpdu* f) {
  const guint32 lead = parley_lead_of(f), length = f->pdu.ulpdu_length;
  proto_item_set_generated(proto_tree_add_uint(tree, hf_conn, tvb, 0, 0, f->item.conn->number));
  proto_item_set_generated(proto_tree_add_uint(tree, hf_from, tvb, 0, 0, f->item.from));
  if (f->pdu.number != 0) proto_item_set_generated(proto_tree_add_uint64(tree, hf_fpdu, tvb, 0, 0, f->pdu.number));
  proto_item_set_generated(proto_tree_add_uint64(tree, hf_position, tvb, 0, 0, f->pdu.position));
  if (f->first_frame != f->item.frame)
    proto_item_set_generated(proto_tree_add_uint(tree, hf_first_frame, tvb, 0, 0, f->first_frame));
  if (f->rtr != PARLEY_RTR_NONE) {
    proto_item_set_generated(proto_tree_add_uint(tree, hf_rtr, tvb, 0, 0, f->rtr));
    proto_item_set_generated(
        proto_tree_add_boolean(tree, hf_rtr_agreed, tvb, 0, 0, (f->item.conn->rtr_agreed & (1 << f->rtr)) != 0));
  }
  if (f->item.known < lead + PARLEY_MPA_LEN_LEN) return;
  proto_tree_add_uint(tree, hf_ulpdu_length, tvb, (gint)lead, PARLEY_MPA_LEN_LEN, length);
  if (f->markers) show_markers(s, tree, tvb, f);
  const guint32 pad = (4 - ((PARLEY_MPA_LEN_LEN + length) & 3)) & 3;
  /* A marker may be between pad and CRC, but never inside either. */
  guint32 pad_end = f->item.octets - PARLEY_MPA_CRC_LEN;
  if (f->markers && (f->pdu.position + pad_end) % PARLEY_MPA_MARKER_INTERVAL == PARLEY_MPA_MARKER_LEN)
    pad_end -= PARLEY_MPA_MARKER_LEN;
  if (pad > 0 && f->item.known >= pad_end)
    proto_tree_add_item(tree, hf_pad, tvb, (gint)(pad_end - pad), (gint)pad, ENC_NA);
  show_crc(tree, tvb, f);
}

static void show_fpdu(const scene* s, parley_fpdu* f) {
  tvbuff_t* const tvb = octets_of(s, &f->item, "FPDU pieced together");
  if (tvb == NULL) return;
  proto_item* const top = proto_tree_add_item(s->top, proto_parley, tvb, 0, (gint)f->item.known, ENC_NA);
  if (s->top != NULL && PTREE_DATA(s->top)->visible) {
    parley_text words = {0};
    parley_text_number(&words, "iWARP MPA FPDU, ULPDU ", f->pdu.ulpdu_length);
    parley_text_add(&words, f->pdu.is_rtr ? " octets, RTR" : " octets");
    proto_item_set_text(top, "%s", words.text);
  }
  proto_tree* const tree = proto_item_add_subtree(top, ett_mpa);
  if (tree != NULL) fpdu_fields(s, tree, tvb, f);
  fpdu_findings(s, f, top);
  parley_rdmap_show(&f->pdu, ulpdu_of(s, tvb, f), s->pinfo, s->top, tree);
}

/* ------------------------------------------------------------------ the rest */

static void show_part(const scene* s, const parley_part* part) {
  const guint32 at = part->item.seq - s->seq;
  const char* const of = part->startup ? "part of a startup frame" : "part of an FPDU";
  parley_info_add(s->pinfo->cinfo, of);
  if (s->top == NULL || at >= tvb_captured_length(s->tvb)) return;
  const gint length = (gint)MIN(part->item.octets, tvb_captured_length(s->tvb) - at);
  proto_item* const top = proto_tree_add_item(s->top, proto_parley, s->tvb, (gint)at, length, ENC_NA);
  proto_tree* const tree = proto_item_add_subtree(top, ett_mpa);
  if (PTREE_DATA(s->top)->visible) {
    parley_text words = {0};
    parley_text_number(&words, "iWARP MPA, ", (guint)length);
    parley_text_add(&words, " octets, ");
    parley_text_add(&words, of);
    if (part->whole_in != 0) parley_text_number(&words, " that is whole in frame ", part->whole_in);
    proto_item_set_text(top, "%s", words.text);
  }
  proto_tree_add_item(tree, hf_part, s->tvb, (gint)at, length, ENC_NA);
  if (part->whole_in == 0) return; /* not yet, on the first pass */
  proto_item_set_generated(proto_tree_add_uint(tree, hf_whole_in, s->tvb, 0, 0, part->whole_in));
}

static void show_note(const scene* s, const parley_item* item) {
  const char* const who = val_to_str_const(item->from, side_names, "");
  const char* const other = val_to_str_const(1u - item->from, side_names, "");
  expert_field* field = &ei_lost;
  int severity = PI_NOTE;
  const char* text = "";
  wmem_allocator_t* const pool = s->pinfo->pool;
  switch ((parley_note)item->note) {
    case PARLEY_NOTE_BAD_LENGTH:
      field = &ei_bad_length, severity = PI_ERROR;
      text = wmem_strdup_printf(
          pool, "the %s sent an FPDU with ULPDU_Length %u, 1 to 64768 are allowed [RFC 5044 §4.1]", who, item->value);
      break;
    case PARLEY_NOTE_LOST:
      text = wmem_strdup_printf(pool,
                                "%u octets of the %s are not in the capture: where its next FPDU begins is not known",
                                item->value, who);
      break;
    case PARLEY_NOTE_FOUND:
      field = &ei_found;
      text = wmem_strdup_printf(pool, "the FPDUs of the %s can be followed from here [RFC 5044 §6]", who);
      break;
    case PARLEY_NOTE_EARLY:
      field = &ei_early_initiator, severity = PI_ERROR;
      text = wmem_strdup_printf(pool,
                                "the initiator sent %u octets after its Request before the Reply came "
                                "[RFC 5044 §7.1.2]",
                                item->value);
      break;
    case PARLEY_NOTE_NOT_STARTUP:
      field = &ei_not_startup, severity = PI_ERROR;
      text = wmem_strdup_printf(pool,
                                "octets of the %s that are not a startup frame where one is expected "
                                "[RFC 5044 §7.1.1]",
                                who);
      break;
    case PARLEY_NOTE_STARTUP_CUT:
      field = &ei_startup_cut;
      text = wmem_strdup_printf(pool,
                                "%u octets of a startup frame are not in the capture: this direction cannot be "
                                "followed",
                                item->value);
      break;
    case PARLEY_NOTE_MARKERS:
      field = &ei_marker, severity = PI_ERROR;
      text = wmem_strdup_printf(pool, "the %s inserts markers, which the %s did not ask for (M=0) [RFC 5044 §4.3]", who,
                                other);
      break;
    case PARLEY_NOTE_NO_MARKERS:
      field = &ei_marker, severity = PI_ERROR;
      text = wmem_strdup_printf(
          pool, "the %s sends FPDUs without the markers that the %s requires (M=1) [RFC 5044 §4.3]", who, other);
      break;
    case PARLEY_NOTE_MARKER_LEFT_OUT:
      field = &ei_marker, severity = PI_ERROR;
      text = wmem_strdup_printf(pool, "the %s left a marker out of its FPDU [RFC 5044 §4.3]", who);
      break;
  }
  count(s->pinfo, item->conn, severity);
  proto_item* const top = proto_tree_add_protocol_format(s->top, proto_parley, s->tvb, 0, 0, "iWARP MPA: %s", text);
  expert_add_info_format(s->pinfo, top, field, "%s", text);
}

static void show_end(const scene* s, const parley_end* end) {
  proto_item* const top =
      proto_tree_add_protocol_format(s->top, proto_parley, s->tvb, 0, 0, "iWARP MPA: %s", end->text);
  expert_add_info_format(s->pinfo, top,
                         end->severity == PI_ERROR  ? &ei_end_error
                         : end->severity == PI_WARN ? &ei_end_warning
                                                    : &ei_end,
                         "%s", end->text);
}

gboolean parley_fills_columns(packet_info* pinfo) {
  const parley_frame* const frame = parley_frame_of(pinfo);
  for (const parley_item* item = frame == NULL ? NULL : frame->first; item != NULL; item = item->next)
    if (item->kind != PARLEY_ITEM_END) return TRUE;
  return FALSE;
}

gboolean parley_show(tvbuff_t* tvb, guint32 seq, packet_info* pinfo, proto_tree* top, const parley_tcp* tcp) {
  const parley_frame* const frame = parley_frame_of(pinfo);
  if (frame == NULL) return FALSE;
  const scene s = {tvb, seq, pinfo, top};
  (void)tcp;
  for (parley_item* item = frame->first; item != NULL; item = item->next) {
    switch ((parley_item_kind)item->kind) {
      case PARLEY_ITEM_STARTUP: show_startup(&s, (const parley_startup_item*)item); break;
      case PARLEY_ITEM_FPDU: show_fpdu(&s, (parley_fpdu*)item); break;
      case PARLEY_ITEM_PART: show_part(&s, (const parley_part*)item); break;
      case PARLEY_ITEM_NOTE: show_note(&s, item); break;
      case PARLEY_ITEM_END: show_end(&s, (const parley_end*)item); break;
    }
  }
  return TRUE;
}

/* ------------------------------------------------------------------ registration */

#define FIELD(field, name, abbreviation, type, base, strings, text)                   \
  {                                                                                   \
    &field, { name, "parley.mpa." abbreviation, type, base, strings, 0, text, HFILL } \
  }

static void register_fields(void) {
  static hf_register_info hf[] = {
      FIELD(hf_conn, "Connection", "connection", FT_UINT32, BASE_DEC, NULL, "By first frame, from 1"),
      FIELD(hf_from, "Sent by", "from", FT_UINT8, BASE_DEC, VALS(side_names), "MPA role of the sender"),
      FIELD(hf_type, "Startup frame", "type", FT_UINT8, BASE_DEC, VALS(type_names), NULL),
      FIELD(hf_key, "Key", "key", FT_STRING, BASE_NONE, NULL, "RFC 5044 §7.1.1"),
      FIELD(hf_flags, "Flags", "flags", FT_UINT8, BASE_HEX, NULL, "RFC 5044 §7.1.1, RFC 6581 §6"),
      {&hf_m,
       {"M: markers required", "parley.mpa.flags.m", FT_BOOLEAN, 8, NULL, PARLEY_MPA_FLAG_M, "RFC 5044 §7.1.1", HFILL}},
      {&hf_c,
       {"C: CRC preferred", "parley.mpa.flags.c", FT_BOOLEAN, 8, NULL, PARLEY_MPA_FLAG_C, "RFC 5044 §7.1.1", HFILL}},
      {&hf_r, {"R: rejected", "parley.mpa.flags.r", FT_BOOLEAN, 8, NULL, PARLEY_MPA_FLAG_R, "RFC 5044 §7.1.1", HFILL}},
      {&hf_s,
       {"S: enhanced set-up, or Rtr frame of 2007", "parley.mpa.flags.s", FT_BOOLEAN, 8, NULL, PARLEY_MPA_FLAG_S,
        "RFC 6581 §6; OFA 2007-10 Rtr §2", HFILL}},
      {&hf_res,
       {"Reserved", "parley.mpa.flags.res", FT_UINT8, BASE_HEX, NULL, PARLEY_MPA_RES_V2, "RFC 5044 §7.1.1", HFILL}},
      FIELD(hf_rev, "Revision", "rev", FT_UINT8, BASE_DEC, NULL, "RFC 5044 §7.1.1, RFC 6581 §6"),
      FIELD(hf_pd_length, "PD_Length", "pd_length", FT_UINT16, BASE_DEC, NULL, "RFC 5044 §7.1.1"),
      FIELD(hf_enhanced, "Enhanced data", "enhanced", FT_NONE, BASE_NONE, NULL, "RFC 6581 §6"),
      {&hf_a,
       {"A: peer-to-peer", "parley.mpa.enhanced.a", FT_BOOLEAN, 16, NULL, PARLEY_MPA_ENH_A, "RFC 6581 §9.2", HFILL}},
      {&hf_b,
       {"B: zero-length Send as RTR", "parley.mpa.enhanced.b", FT_BOOLEAN, 16, NULL, PARLEY_MPA_ENH_B, "RFC 6581 §9.2",
        HFILL}},
      {&hf_enh_c,
       {"C: zero-length RDMA Write as RTR", "parley.mpa.enhanced.c", FT_BOOLEAN, 16, NULL, PARLEY_MPA_ENH_C,
        "RFC 6581 §9.2", HFILL}},
      {&hf_d,
       {"D: zero-length RDMA Read as RTR", "parley.mpa.enhanced.d", FT_BOOLEAN, 16, NULL, PARLEY_MPA_ENH_D,
        "RFC 6581 §9.2", HFILL}},
      {&hf_ird,
       {"IRD", "parley.mpa.enhanced.ird", FT_UINT16, BASE_DEC, NULL, PARLEY_MPA_ENH_DEPTH_MASK,
        "RFC 6581 §9.1; 16383: not negotiated", HFILL}},
      {&hf_ord,
       {"ORD", "parley.mpa.enhanced.ord", FT_UINT16, BASE_DEC, NULL, PARLEY_MPA_ENH_DEPTH_MASK,
        "RFC 6581 §9.1; 16383: not negotiated", HFILL}},
      FIELD(hf_fpdu, "FPDU", "fpdu", FT_UINT64, BASE_DEC, NULL, "Number in its direction, from 1"),
      FIELD(hf_ulpdu_length, "ULPDU_Length", "ulpdu_length", FT_UINT16, BASE_DEC, NULL, "RFC 5044 §4.1"),
      FIELD(hf_pad, "Pad", "pad", FT_BYTES, BASE_NONE, NULL, "RFC 5044 §4.1"),
      FIELD(hf_crc, "CRC", "crc", FT_UINT32, BASE_HEX, NULL, "CRC32c, RFC 5044 §4.4"),
      FIELD(hf_crc_status, "CRC status", "crc.status", FT_UINT8, BASE_NONE, VALS(proto_checksum_vals), NULL),
      FIELD(hf_crc_computed, "Computed CRC", "crc.computed", FT_UINT32, BASE_HEX, NULL, NULL),
      FIELD(hf_marker, "Marker", "marker", FT_BYTES, BASE_NONE, NULL, "RFC 5044 §4.3"),
      FIELD(hf_marker_res, "Reserved", "marker.res", FT_UINT16, BASE_HEX, NULL, "RFC 5044 §4.3"),
      FIELD(hf_fpduptr, "FPDUPTR", "marker.fpduptr", FT_UINT16, BASE_DEC, NULL, "RFC 5044 §4.3"),
      FIELD(hf_position, "Stream position", "position", FT_UINT64, BASE_DEC, NULL,
            "Octets of FPDUs and markers of this direction before this FPDU"),
      FIELD(hf_rtr, "Ready to receive", "rtr", FT_UINT8, BASE_DEC, VALS(rtr_names), "RFC 6581 §9.2"),
      FIELD(hf_rtr_agreed, "Kind agreed", "rtr.agreed", FT_BOOLEAN, BASE_NONE, NULL, "RFC 6581 §9.2"),
      FIELD(hf_first_frame, "Begins in frame", "first_frame", FT_FRAMENUM, BASE_NONE, NULL, NULL),
      FIELD(hf_part, "Part of an FPDU", "part", FT_BYTES, BASE_NONE, NULL, NULL),
      FIELD(hf_whole_in, "Whole in frame", "whole_in", FT_FRAMENUM, BASE_NONE, NULL, NULL),
  };
  proto_register_field_array(proto_parley, hf, G_N_ELEMENTS(hf));
}

static void register_experts(void) {
#define EXPERT(field, abbreviation, group, severity, text)                 \
  {                                                                        \
    &field, { "parley.mpa." abbreviation, group, severity, text, EXPFILL } \
  }
  static ei_register_info ei[] = {
      EXPERT(ei_startup_error, "startup.error", PI_PROTOCOL, PI_ERROR, "Startup frame breaks a rule"),
      EXPERT(ei_startup_warning, "startup.warning", PI_PROTOCOL, PI_WARN, "Startup frame is questionable"),
      EXPERT(ei_startup_note, "startup.note", PI_PROTOCOL, PI_NOTE, "Startup frame is remarkable"),
      EXPERT(ei_crc, "crc.bad", PI_CHECKSUM, PI_ERROR, "Wrong CRC [RFC 5044 §4.4]"),
      EXPERT(ei_marker, "marker.bad", PI_PROTOCOL, PI_ERROR, "Wrong marker [RFC 5044 §4.3]"),
      EXPERT(ei_early_responder, "responder_early", PI_SEQUENCE, PI_ERROR, "Responder spoke first [RFC 5044 §7.1.2]"),
      EXPERT(ei_rtr, "rtr.wrong", PI_SEQUENCE, PI_ERROR, "First FPDU is not an agreed RTR [RFC 6581 §9.2]"),
      EXPERT(ei_rtr_frame, "rtr.frame_wrong", PI_SEQUENCE, PI_ERROR,
             "Rtr frame is missing or not understood [OFA 2007-10 Rtr §2]"),
      EXPERT(ei_rtr_unannounced, "rtr.unannounced", PI_SEQUENCE, PI_NOTE, "RTR that nothing announced"),
      EXPERT(ei_pad, "pad.not_zero", PI_PROTOCOL, PI_ERROR, "Pad is not zero [RFC 5044 §4.1]"),
      EXPERT(ei_bad_length, "ulpdu_length.bad", PI_PROTOCOL, PI_ERROR, "Impossible ULPDU_Length [RFC 5044 §4.1]"),
      EXPERT(ei_lost, "lost", PI_SEQUENCE, PI_NOTE, "FPDU boundaries are lost"),
      EXPERT(ei_found, "found", PI_SEQUENCE, PI_NOTE, "FPDU boundaries are found [RFC 5044 §6]"),
      EXPERT(ei_early_initiator, "initiator_early", PI_SEQUENCE, PI_ERROR, "Octets before the Reply [RFC 5044 §7.1.2]"),
      EXPERT(ei_not_startup, "startup.missing", PI_PROTOCOL, PI_ERROR, "No startup frame [RFC 5044 §7.1.1]"),
      EXPERT(ei_end, "end.note", PI_SEQUENCE, PI_NOTE, "Something was not finished"),
      EXPERT(ei_end_warning, "end.warning", PI_SEQUENCE, PI_WARN, "What was expected did not come [RFC 5044 §7.1.2]"),
      EXPERT(ei_end_error, "end.error", PI_SEQUENCE, PI_ERROR, "What was promised did not come [RFC 5044 §7.1.1]"),
      EXPERT(ei_startup_cut, "startup.cut", PI_SEQUENCE, PI_NOTE, "Startup frame is not whole"),
  };
#undef EXPERT
  expert_register_field_array(expert_register_protocol(proto_parley), ei, G_N_ELEMENTS(ei));
}

void parley_mpa_register(void) {
  static gint* ett[] = {&ett_mpa, &ett_flags, &ett_enhanced, &ett_marker};
  parley_crc_init();
  register_fields();
  proto_register_subtree_array(ett, G_N_ELEMENTS(ett));
  register_experts();
}
