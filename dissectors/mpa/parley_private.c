/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ULP data in the private data of startup frames (RFC 5044 §7.1.1), behind the enhanced data of RFC 6581 if there is
 * any: SMB Direct's IRD and ORD, NVMe over RDMA's connection parameters, messages of Parley's QP negotiation, and the
 * extension of erdma's revision 129. */
#include <epan/expert.h>
#include <epan/prefs.h>

#include "parley/wire/nvme_rdma.h"
#include "parley_mpa.h"
#include "parley_neg.h"

enum {
  erdma_revision = 129,
  erdma_octets = 8, /* not counted in PD_Length */
  smb_octets = 8,
  nvme_octets = 32,
  nvme_reject_octets = 4,
  depth_max = 0x3FFF /* of IRD and ORD, RFC 6581 §6 */
};
enum { format_auto, format_plain, format_smb, format_nvme, format_neg };

static const enum_val_t formats[] = {
    {"auto", "By port and looks", format_auto}, {"plain", "Plain octets", format_plain},
    {"smb", "SMB Direct", format_smb},          {"nvme", "NVMe over RDMA", format_nvme},
    {"neg", "Parley negotiation", format_neg},  {NULL, NULL, 0}};
static gint forced = format_auto;

static int hf_data, hf_format, hf_cookie, hf_bits, hf_bits_reserved, hf_congestion, hf_smb_ird, hf_smb_ord,
    hf_smb_little;
static int hf_format_number, hf_qid, hf_hrqsize, hf_hsqsize, hf_cntlid, hf_crqsize, hf_status, hf_nvme_reserved;
static gint ett_private = -1, ett_erdma = -1, ett_bits = -1;
static expert_field ei_little = EI_INIT, ei_both = EI_INIT;

#define TEXT(name, code, text) {code, text},
static const value_string statuses[] = {PARLEY_NVME_RDMA_STATUSES(TEXT){0, NULL}};

static const char* format_name(int format) {
  return format == format_smb    ? "SMB Direct"
         : format == format_nvme ? "NVMe over RDMA"
         : format == format_neg  ? "Parley negotiation"
                                 : "plain octets";
}

static gboolean has_port(const parley_conn* conn, guint16 port) {
  return conn->port[PARLEY_RESPONDER] == port || (!conn->roles_known && conn->port[PARLEY_INITIATOR] == port);
}

static gboolean rejected(const parley_conn* conn, int from) {
  return from == PARLEY_RESPONDER && (conn->reply.flags & PARLEY_MPA_FLAG_R) != 0;
}

static gboolean smb_plausible(tvbuff_t* tvb, gint at, gint length, guint encoding) {
  return length == smb_octets && tvb_get_guint32(tvb, at, encoding) <= depth_max &&
         tvb_get_guint32(tvb, at + 4, encoding) <= depth_max;
}

static gboolean zeros(tvbuff_t* tvb, gint at, gint length) {
  for (gint i = 0; i < length; ++i)
    if (tvb_get_guint8(tvb, at + i) != 0) return FALSE;
  return TRUE;
}

/* Sizes of 0 do not occur, so octets that are all 0 do not match. */
static gboolean nvme_plausible(tvbuff_t* tvb, gint at, gint length, const parley_conn* conn, int from) {
  if (rejected(conn, from))
    return length >= nvme_reject_octets && tvb_get_letohs(tvb, at) == 0 && tvb_get_letohs(tvb, at + 2) >= 1 &&
           tvb_get_letohs(tvb, at + 2) <= 8;
  if (length < nvme_octets || tvb_get_letohs(tvb, at) != 0) return FALSE;
  if (from == PARLEY_RESPONDER) return tvb_get_letohs(tvb, at + 2) != 0 && zeros(tvb, at + 4, nvme_octets - 4);
  return tvb_get_letohs(tvb, at + 4) != 0 && tvb_get_letohs(tvb, at + 6) != 0 && zeros(tvb, at + 10, nvme_octets - 10);
}

/* On a format's port, data that fits the format is enough. On other ports only NVMe's 32 octets are specific enough,
 * and not in a reject. */
static int choose(tvbuff_t* tvb, gint at, gint length, const parley_conn* conn, int from) {
  if (forced != format_auto) return forced;
  if (parley_neg_in_private_data(tvb, at, length)) return format_neg;
  if (has_port(conn, 445) || has_port(conn, 5445))
    return smb_plausible(tvb, at, length, ENC_BIG_ENDIAN) || smb_plausible(tvb, at, length, ENC_LITTLE_ENDIAN)
               ? format_smb
               : format_plain;
  if (nvme_plausible(tvb, at, length, conn, from) && (has_port(conn, 4420) || !rejected(conn, from)))
    return format_nvme;
  return format_plain;
}

/* Big-endian, but older Linux cifs sends host order. Both numbers are small, so that only the right order gives small
 * values. */
static void show_smb(tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree, gint at, gint length) {
  const gboolean little =
      !smb_plausible(tvb, at, length, ENC_BIG_ENDIAN) && smb_plausible(tvb, at, length, ENC_LITTLE_ENDIAN);
  const guint encoding = little ? ENC_LITTLE_ENDIAN : ENC_BIG_ENDIAN;
  proto_item* item = proto_tree_add_item(tree, hf_smb_ird, tvb, at, 4, encoding);
  proto_tree_add_item(tree, hf_smb_ord, tvb, at + 4, 4, encoding);
  if (!little) return;
  proto_item_set_generated(proto_tree_add_boolean(tree, hf_smb_little, tvb, at, smb_octets, TRUE));
  expert_add_info(pinfo, item, &ei_little);
}

static void show_nvme(tvbuff_t* tvb, proto_tree* tree, gint at, gint length, const parley_conn* conn, int from) {
  proto_tree_add_item(tree, hf_format_number, tvb, at, 2, ENC_LITTLE_ENDIAN);
  if (rejected(conn, from)) {
    proto_tree_add_item(tree, hf_status, tvb, at + 2, 2, ENC_LITTLE_ENDIAN);
    if (length > nvme_reject_octets)
      proto_tree_add_item(tree, hf_nvme_reserved, tvb, at + nvme_reject_octets, length - nvme_reject_octets, ENC_NA);
    return;
  }
  if (from == PARLEY_RESPONDER) {
    proto_tree_add_item(tree, hf_crqsize, tvb, at + 2, 2, ENC_LITTLE_ENDIAN);
    proto_tree_add_item(tree, hf_nvme_reserved, tvb, at + 4, length - 4, ENC_NA);
    return;
  }
  proto_tree_add_item(tree, hf_qid, tvb, at + 2, 2, ENC_LITTLE_ENDIAN);
  proto_tree_add_item(tree, hf_hrqsize, tvb, at + 4, 2, ENC_LITTLE_ENDIAN);
  proto_tree_add_item(tree, hf_hsqsize, tvb, at + 6, 2, ENC_LITTLE_ENDIAN);
  proto_tree_add_item(tree, hf_cntlid, tvb, at + 8, 2, ENC_LITTLE_ENDIAN);
  proto_tree_add_item(tree, hf_nvme_reserved, tvb, at + 10, length - 10, ENC_NA);
}

/* Whether the octets can have the format that the preference selects. */
static gboolean fits(tvbuff_t* tvb, gint at, int format, gint length, const parley_conn* conn, int from) {
  if (format == format_smb) return length == smb_octets;
  if (format == format_nvme) return length >= (rejected(conn, from) ? nvme_reject_octets : nvme_octets);
  return format == format_neg && parley_neg_in_private_data(tvb, at, length);
}

/* Eight octets between header and private data, which Alibaba's erdma driver in the Linux kernel sends and expects. */
static void show_erdma(tvbuff_t* tvb, proto_tree* tree) {
  static int* const bits[] = {&hf_bits_reserved, &hf_congestion, NULL};
  proto_tree* sub =
      proto_tree_add_subtree(tree, tvb, 0, erdma_octets, ett_erdma, NULL, "Extension of erdma (revision 129)");
  proto_tree_add_item(sub, hf_cookie, tvb, 0, 4, ENC_BIG_ENDIAN);
  proto_tree_add_bitmask(sub, tvb, 4, hf_bits, ett_bits, bits, ENC_BIG_ENDIAN);
}

void parley_private_show(tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree, const parley_conn* conn, int from) {
  const parley_startup* frame = from == PARLEY_INITIATOR ? &conn->request : &conn->reply;
  const gint captured = (gint)tvb_captured_length(tvb);
  gint at = 0;
  if (captured == 0) return;
  if (frame->revision == erdma_revision && captured >= erdma_octets &&
      tvb_reported_length(tvb) >= (guint)frame->pd_length + erdma_octets) {
    show_erdma(tvb, tree);
    at = erdma_octets;
  }
  const gint length = captured - at;
  if (length == 0) return;
  proto_item* item = proto_tree_add_item(tree, hf_data, tvb, at, length, ENC_NA);
  proto_tree* sub = proto_item_add_subtree(item, ett_private);
  const gboolean cut = (guint)captured < tvb_reported_length(tvb);
  const int format = cut ? format_plain : choose(tvb, at, length, conn, from);
  const gboolean shown = fits(tvb, at, format, length, conn, from);
  proto_item_set_generated(
      proto_tree_add_string(sub, hf_format, tvb, at, length, format_name(shown ? format : format_plain)));
  if (!shown) return;
  proto_item_append_text(item, " (%s)", format_name(format));
  if (format == format_smb) {
    show_smb(tvb, pinfo, sub, at, length);
    if (frame->enhanced) expert_add_info(pinfo, item, &ei_both);
  } else if (format == format_neg) {
    parley_neg_show_private_data(tvb, pinfo, sub, at, length);
  } else {
    show_nvme(tvb, sub, at, length, conn, from);
  }
}

void parley_private_register(void) {
#define FIELD(var, name, filter, type, base, strings, mask)                          \
  {                                                                                  \
    &var, { name, "parley.private." filter, type, base, strings, mask, NULL, HFILL } \
  }
  static hf_register_info hf[] = {
      {&hf_data,
       {"Private data", "parley.mpa.private_data", FT_BYTES, BASE_NONE, NULL, 0, "RFC 5044 §7.1.1, of the ULP", HFILL}},
      FIELD(hf_format, "Format", "format", FT_STRING, BASE_NONE, NULL, 0),
      FIELD(hf_cookie, "Cookie", "erdma.cookie", FT_UINT32, BASE_HEX, NULL, 0),
      FIELD(hf_bits, "Bits", "erdma.bits", FT_UINT32, BASE_HEX, NULL, 0),
      FIELD(hf_bits_reserved, "Reserved", "erdma.reserved", FT_UINT32, BASE_HEX, NULL, 0xFFFFFFF0),
      FIELD(hf_congestion, "Congestion control", "erdma.congestion_control", FT_UINT32, BASE_DEC, NULL, 0xF),
      FIELD(hf_smb_ird, "IRD", "smb_direct.ird", FT_UINT32, BASE_DEC, NULL, 0),
      FIELD(hf_smb_ord, "ORD", "smb_direct.ord", FT_UINT32, BASE_DEC, NULL, 0),
      FIELD(hf_smb_little, "In little-endian order", "smb_direct.little_endian", FT_BOOLEAN, BASE_NONE, NULL, 0),
      FIELD(hf_format_number, "Record format", "nvme.recfmt", FT_UINT16, BASE_DEC, NULL, 0),
      FIELD(hf_qid, "Queue ID", "nvme.qid", FT_UINT16, BASE_DEC, NULL, 0),
      FIELD(hf_hrqsize, "Host receive queue size", "nvme.hrqsize", FT_UINT16, BASE_DEC, NULL, 0),
      FIELD(hf_hsqsize, "Host send queue size", "nvme.hsqsize", FT_UINT16, BASE_DEC, NULL, 0),
      FIELD(hf_cntlid, "Controller ID", "nvme.cntlid", FT_UINT16, BASE_DEC, NULL, 0),
      FIELD(hf_crqsize, "Controller receive queue size", "nvme.crqsize", FT_UINT16, BASE_DEC, NULL, 0),
      FIELD(hf_status, "Status", "nvme.status", FT_UINT16, BASE_DEC, VALS(statuses), 0),
      FIELD(hf_nvme_reserved, "Reserved", "nvme.reserved", FT_BYTES, BASE_NONE, NULL, 0),
  };
#undef FIELD
  static gint* ett[] = {&ett_private, &ett_erdma, &ett_bits};
  static ei_register_info ei[] = {
      {&ei_little,
       {"parley.private.expert.little_endian", PI_PROTOCOL, PI_NOTE,
        "IRD and ORD of SMB Direct are little-endian, as older Linux cifs sends them; they are big-endian", EXPFILL}},
      {&ei_both,
       {"parley.private.expert.both", PI_PROTOCOL, PI_CHAT,
        "IRD and ORD are there twice: the enhanced data holds them too [RFC 6581 §6]", EXPFILL}},
  };
  proto_register_field_array(proto_parley, hf, array_length(hf));
  proto_register_subtree_array(ett, array_length(ett));
  expert_register_field_array(expert_register_protocol(proto_parley), ei, array_length(ei));
  prefs_register_enum_preference(parley_module(), "private_data", "Format of the private data",
                                 "What the ULP's private data in startup frames is taken for", &forced, formats, FALSE);
}
